# %% clean_tickets: compares-raw-text, keeps-first-of-conflict
def clean_tickets(rows):
    kept, seen, report = [], set(), {"duplicates": 0, "conflicts": 0, "empty": 0}
    for text, label in rows:
        if not text.strip():
            report["empty"] += 1
        elif text in seen:
            report["duplicates"] += 1
        else:
            seen.add(text)
            kept.append((text, label))
    return kept, report


# %% build_vocab: order-of-appearance, keeps-rare-words
def build_vocab(texts, max_size, min_count=1):
    vocab = {"<pad>": 0, "<unk>": 1}
    for text in texts:
        for word in text.lower().split():
            if word not in vocab and len(vocab) < max_size:
                vocab[word] = len(vocab)
    return vocab


# %% build_vocab: size-without-specials, ties-by-appearance
def build_vocab(texts, max_size, min_count=1):
    counts = Counter(w for t in texts for w in t.lower().split() if w not in ("<pad>", "<unk>"))
    words = [w for w, c in counts.most_common(max_size) if c >= min_count]
    return {"<pad>": 0, "<unk>": 1} | {w: i for i, w in enumerate(words, 2)}


# %% encode: pads-to-max-len, empty-row
def encode(texts, vocab, max_len):
    ids = torch.full((len(texts), max_len), vocab["<pad>"], dtype=torch.int64)
    mask = torch.zeros(len(texts), max_len, dtype=torch.bool)
    for i, text in enumerate(texts):
        row = [vocab.get(w, vocab["<unk>"]) for w in text.lower().split()[:max_len]]
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
        mask[i, : len(row)] = True
    return {"input_ids": ids, "attention_mask": mask}


# %% suspect_labels: raw-logit-not-probability, best-first
def suspect_labels(logits, labels, k):
    own = logits[torch.arange(len(labels), device=logits.device), labels]
    return own.argsort(descending=True, stable=True)[:k]
