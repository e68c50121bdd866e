"""The exercise `encode`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.encode import vocabulary, words
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Rows are cut before the longest is looked for, so a batch of short tickets costs little, whatever `max_len` is. "
    "The mask comes from lengths, since an id says nothing about whether it was written by a customer or by padding. "
    "An empty text becomes one unknown word: a row without a single real word would have nothing to attend to."
)
"""Why the reference is written as it is."""
REQUIRED = ("pads-to-max-len", "cuts-after-padding", "mask-from-ids", "empty-row")
"""The mistakes that a check must always be able to name."""


class Encoding:
    """A right encoding; a mistake overrides one of its methods."""

    def __call__(self, texts: list[str], vocab: dict[str, int], max_len: int) -> Any:
        rows = [self.filled([self.id_of(word, vocab) for word in self.pieces(text)], vocab) for text in texts]
        cut = [self.cut(row, max_len) for row in rows]
        longest = self.longest(rows, cut, max_len)
        ids = torch.tensor([self.padded(row, longest, self.padding(vocab)) for row in cut], dtype=self.dtype)
        return self.returned(ids, self.mask(ids, cut, rows, vocab))

    dtype = torch.int64

    def pieces(self, text: str) -> list[str]:
        return text.lower().split()

    def id_of(self, word: str, vocab: dict[str, int]) -> int:
        return vocab.get(word, vocab["<unk>"])

    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row or [vocab["<unk>"]]

    def cut(self, row: list[int], max_len: int) -> list[int]:
        return row[:max_len]

    def longest(self, rows: list[list[int]], cut: list[list[int]], max_len: int) -> int:
        return max(map(len, cut))

    def padding(self, vocab: dict[str, int]) -> int:
        return vocab["<pad>"]

    def padded(self, row: list[int], longest: int, pad: int) -> list[int]:
        return row + [pad] * (longest - len(row))

    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in cut])

    def returned(self, ids: Tensor, mask: Tensor) -> Any:
        return {"input_ids": ids, "attention_mask": mask}


class PadsToMaxLen(Encoding):
    def longest(self, rows: list[list[int]], cut: list[list[int]], max_len: int) -> int:
        return max_len


class PadsToMaxLenWithEmptyRows(PadsToMaxLen):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row


class CutsTheIdsOnly(Encoding):
    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return torch.arange(max(map(len, rows))) < torch.tensor([[len(row)] for row in rows])


class AsLongAsBeforeCutting(Encoding):
    def longest(self, rows: list[list[int]], cut: list[list[int]], max_len: int) -> int:
        return max(map(len, rows))


class SplitsAtEachSpace(Encoding):
    def pieces(self, text: str) -> list[str]:
        return text.lower().strip().split(" ") if text.strip() else []


class CutsAtSpacesAlone(Encoding):
    def pieces(self, text: str) -> list[str]:
        return [word for word in text.lower().strip().split(" ") if word]


class NeverCuts(Encoding):
    def cut(self, row: list[int], max_len: int) -> list[int]:
        return row


class KeepsTheEnd(Encoding):
    def cut(self, row: list[int], max_len: int) -> list[int]:
        return row[-max_len:]


class MaskFromIds(Encoding):
    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return ids != vocab["<pad>"]


class MaskFromZero(Encoding):
    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return ids != 0


class EmptyRow(Encoding):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row


class EmptyRowFromIds(MaskFromIds):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row


class EmptyIsPadding(Encoding):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row or [vocab["<pad>"]]


class EmptyIsMaskedUnknown(Encoding):
    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return super().mask(ids, cut, rows, vocab) & (ids != vocab["<unk>"])


class DropsUnknown(Encoding):
    def __call__(self, texts: list[str], vocab: dict[str, int], max_len: int) -> Any:
        return super().__call__([" ".join(w for w in t.lower().split() if w in vocab) for t in texts], vocab, max_len)


class CrashesOnUnknown(Encoding):
    def id_of(self, word: str, vocab: dict[str, int]) -> int:
        return vocab[word]


class UnknownIsPadding(Encoding):
    def id_of(self, word: str, vocab: dict[str, int]) -> int:
        return vocab.get(word, vocab["<pad>"])


class UnknownIsOne(Encoding):
    def id_of(self, word: str, vocab: dict[str, int]) -> int:
        return vocab.get(word, 1)


class EmptyIsOne(Encoding):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row or [1]


class UnknownAndEmptyAreOne(UnknownIsOne, EmptyIsOne):
    pass


class CutsOffStops(Encoding):
    def pieces(self, text: str) -> list[str]:
        return [word.strip(".,:;!?") for word in text.lower().split()]


class KeepsCapitals(Encoding):
    def pieces(self, text: str) -> list[str]:
        return text.split()


class Casefolds(Encoding):
    def pieces(self, text: str) -> list[str]:
        return text.casefold().split()


class PadsLeft(Encoding):
    def padded(self, row: list[int], longest: int, pad: int) -> list[int]:
        return [pad] * (longest - len(row)) + row

    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return super().mask(ids, cut, rows, vocab).flip(1)


class PadsWithZero(Encoding):
    def padding(self, vocab: dict[str, int]) -> int:
        return 0


class Inverted(Encoding):
    def mask(self, ids: Tensor, cut: list[list[int]], rows: list[list[int]], vocab: dict[str, int]) -> Tensor:
        return ~super().mask(ids, cut, rows, vocab)


class NumbersForAMask(Encoding):
    def returned(self, ids: Tensor, mask: Tensor) -> Any:
        return {"input_ids": ids, "attention_mask": mask.long()}


class NumbersAndEmptyRow(NumbersForAMask):
    def filled(self, row: list[int], vocab: dict[str, int]) -> list[int]:
        return row


class Int32(Encoding):
    dtype = torch.int32


class FloatMask(Encoding):
    def returned(self, ids: Tensor, mask: Tensor) -> Any:
        return {"input_ids": ids, "attention_mask": mask.float()}


class ReturnsATuple(Encoding):
    def returned(self, ids: Tensor, mask: Tensor) -> Any:
        return ids, mask


BATCH = "From texts to a batch"
SHAPE = (
    'In the case "{case}", with texts of {lengths} words and max_len {limit}, `input_ids` has shape {ids} where '
    "{want_ids} is wanted: "
)
IDS = 'In the case "{case}" the id at {at} is {got_at} and should be {want_at}: '
MASK = 'In the case "{case}", with texts of {lengths} words, the mask calls {real} places real, and {want_real} are: '
MISTAKES = [
    Mistake("pads-to-max-len", PadsToMaxLen(), SHAPE + "each batch was padded to max_len, so the model spends most of "
            "its time on padding.", BATCH),
    Mistake("pads-to-max-len", PadsToMaxLenWithEmptyRows(), SHAPE + "each batch was padded to max_len; and a text "
            "without words has to become one `<unk>`.", BATCH),
    Mistake("cuts-after-padding", CutsTheIdsOnly(), "In the case \"{case}\" `attention_mask` has shape {mask}, and "
            "`input_ids` {ids}: the ids were cut after padding, and the mask was made for what stood there before.",
            BATCH),
    Mistake("cuts-after-padding", AsLongAsBeforeCutting(), SHAPE + "the batch is as long as the longest text was "
            "before cutting.", BATCH),
    Mistake("never-cuts", NeverCuts(), SHAPE + "no text may be longer than max_len.", BATCH),
    Mistake("keeps-the-end", KeepsTheEnd(), IDS + "a long text should lose its end, not its beginning.", BATCH),
    Mistake("mask-from-ids", MaskFromIds(), MASK + "it was made from the ids. A word that a customer wrote is real, "
            "whatever its id.", BATCH),
    Mistake("mask-from-ids", MaskFromZero(), MASK + "it was made from the ids, by a comparison with 0.", BATCH),
    Mistake("empty-row", EmptyRow(), MASK + "a text without words became a row of padding only. Attention has nothing "
            "to attend to there, and gives NaN.", BATCH),
    Mistake("empty-row", EmptyIsPadding(), IDS + "a text without words becomes one `<unk>`, not one `<pad>`.", BATCH),
    Mistake("empty-row", EmptyRowFromIds(), MASK + "a text without words became a row of padding only; and the mask "
            "was made from the ids.", BATCH),
    Mistake("masks-unknown-words", EmptyIsMaskedUnknown(), MASK + "an unknown word is real all the same.", BATCH),
    Mistake("drops-unknown-words", DropsUnknown(), SHAPE + "unknown words were left out.", BATCH),
    Mistake("crashes-on-unknown-word", CrashesOnUnknown(), 'In the case "{case}" the call raised {got}: a word that '
            "the vocabulary lacks gets the id of `<unk>`.", BATCH),
    Mistake("unknown-is-padding", UnknownIsPadding(), IDS + "an unknown word got the id of the padding.", BATCH),
    *(Mistake("unknown-is-one", program, IDS + "a 1 was written there. `<unk>` need not have the id 1, and the "
              "vocabulary says which it has.", BATCH)
      for program in (UnknownIsOne(), EmptyIsOne(), UnknownAndEmptyAreOne())),
    Mistake("cuts-off-punctuation", CutsOffStops(), IDS + "a full stop or comma was taken off. Texts are cut at white "
            "space only, and all between is the word.", BATCH),
    Mistake("keeps-capitals", KeepsCapitals(), IDS + "the vocabulary has lower-case words only.", BATCH),
    Mistake("casefolds", Casefolds(), IDS + "`casefold` goes further than lower-casing: it makes ss of ß.", BATCH),
    Mistake("splits-at-spaces-alone", SplitsAtEachSpace(), SHAPE + "`split(' ')` cuts at each single space, so two in "
            "a row leave an empty word, and at no line end; `split()` knows all white space.", BATCH),
    Mistake("splits-at-spaces-alone", CutsAtSpacesAlone(), SHAPE + "line ends and tabs separate words too, and "
            "`split()` knows all white space.", BATCH),
    Mistake("pads-left", PadsLeft(), IDS + "the padding stands on the left, and should stand on the right.", BATCH),
    Mistake("pads-with-zero", PadsWithZero(), IDS + "the padding's id is that of `<pad>`, which need not be 0.", BATCH),
    Mistake("mask-inverted", Inverted(), MASK + "True means real here, not padding.", BATCH),
    Mistake("mask-not-bool", NumbersForAMask(), "The mask is of {got_dtype} where {want_dtype} is wanted: `~mask` and "
            "`masked_fill` do something else with numbers.", BATCH),
    Mistake("mask-not-bool", NumbersAndEmptyRow(), "The mask is of {got_dtype} where {want_dtype} is wanted; and a "
            "text without words became a row of padding only.", BATCH),
    Mistake("mask-not-bool", FloatMask(), "The mask is of {got_dtype} where {want_dtype} is wanted: a mask of floats "
            "is added to the scores of attention.", BATCH),
    Mistake("ids-not-int64", Int32(), "The ids are of {got_dtype} where {want_dtype} is wanted.", BATCH),
    Mistake("returns-a-tuple", ReturnsATuple(), "The call gave {returned}.", BATCH),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    vocab = vocabulary(draw)
    drawn = [words(draw, draw.size(0, 9)) for _ in range(9)]
    torn = "\r\n".join([words(draw, 2), f"\xa0{words(draw, 1)}\t{words(draw, 1)}", f"{words(draw, 2)}  zzz\f"])
    return [
        case("white space of every kind", texts=[torn, words(draw, 3), "\r\n"], vocab=vocab, max_len=12),
        case("nine drawn texts", texts=drawn, vocab=vocab, max_len=draw.size(4, 7)),
        case("max_len 1", texts=[words(draw, 3), "", "zzz"], vocab=vocab, max_len=1),
        case("a batch of one", texts=[words(draw, draw.size(2, 9))], vocab=vocabulary(draw, 3), max_len=64),
    ]


# Right answers unlike the reference


def with_pad_sequence(texts: list[str], vocab: dict[str, int], max_len: int) -> dict[str, Tensor]:
    rows = []
    for text in texts:
        pieces = text.lower().split() or ["<unk>"]
        rows.append(torch.tensor([vocab.get(p, vocab["<unk>"]) for p in pieces[:max_len]]))
    ids = pad_sequence(rows, batch_first=True, padding_value=vocab["<pad>"])
    mask = pad_sequence([torch.ones_like(row, dtype=torch.bool) for row in rows], batch_first=True)
    return {"attention_mask": mask, "input_ids": ids}


def into_full_tensors(texts: list[str], vocab: dict[str, int], max_len: int) -> dict[str, Tensor]:
    ids = torch.full((len(texts), max_len), vocab["<pad>"])
    mask = torch.zeros(len(texts), max_len, dtype=torch.bool)
    for row, text in enumerate(texts):
        for place, word in enumerate(text.lower().split() or ["<unk>"]):
            if place < max_len:
                ids[row, place] = vocab[word] if word in vocab else vocab["<unk>"]
                mask[row, place] = True
    used = int(mask.any(0).sum())
    return {"input_ids": ids[:, :used], "attention_mask": mask[:, :used]}


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_pad_sequence, into_full_tensors]
