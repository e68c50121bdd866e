"""The exercise `encode`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

PARTS = ("input_ids", "attention_mask")
KNOWN = ("refund", "invoice", "card", "login", "crash", "photo", "mail", "price")


def probe(answer: Watched, texts: list[str], vocab: dict[str, int], max_len: int) -> Observations:
    """Encode texts, and observe ids and mask."""
    before = dict(vocab)
    made: Any = answer(list(texts), vocab, max_len)
    if not isinstance(made, dict):
        return {"returned": f"{kind(made)}, where a dict is wanted"}
    return {
        **{n: made[n] if isinstance(made[n], Tensor) else kind(made[n]) for n in PARTS if n in made},
        "vocab afterwards": "as before" if vocab == before else "changed",
    }


def vocabulary(draw: Draw, pad: int = 0) -> dict[str, int]:
    """Return the special entries, at `pad` and after it, and known words with drawn ids."""
    ids = [i for i in range(20) if i not in (pad, pad + 1)]
    order = draw.normal(len(ids)).argsort().tolist()
    return {"<pad>": pad, "<unk>": pad + 1} | {word: ids[n] for word, n in zip(KNOWN, order, strict=False)}


def words(draw: Draw, count: int) -> str:
    """Draw a text of so many known words."""
    return " ".join(draw.pick(KNOWN) for _ in range(count))


def cases(draw: Draw) -> list[Case]:
    vocab = vocabulary(draw)
    some = [words(draw, n) for n in (3, 6, 2)]
    strange = [f"{words(draw, 2)} zzz", f"zzz {words(draw, 3)}", f"{words(draw, 1)}, {words(draw, 2)}."]
    loud = [words(draw, 2).title(), words(draw, 3).upper()]
    lines = [f"{words(draw, 1)}\t{words(draw, 2)}\r\n{words(draw, 1)}", f" {words(draw, 1)}  {words(draw, 1)}\n"]
    return [
        case("three texts", texts=some, vocab=vocab, max_len=16),
        case("one is longer than max_len", texts=[words(draw, n) for n in (2, 9, 4)], vocab=vocab, max_len=6),
        case("all are longer than max_len", texts=[words(draw, n) for n in (7, 5)], vocab=vocab, max_len=3),
        case("unknown words", texts=strange, vocab=vocab, max_len=8),
        case("capitals", texts=loud, vocab=vocab, max_len=8),
        case("line ends, a tab and two spaces", texts=lines, vocab=vocab, max_len=8),
        case("an empty text", texts=["", words(draw, 3), " \n"], vocab=vocab, max_len=8),
        case("nothing but an empty text", texts=[""], vocab=vocab, max_len=8),
        case("somebody writes <pad>", texts=[f"<pad> {words(draw, 3)} <pad>", words(draw, 3)], vocab=vocab,
             max_len=8),
        case("ß is not ss", texts=[f"straße {words(draw, 1)} strasse"], vocab=vocab | {"straße": 20}, max_len=8),
        case("padding with another id", texts=[words(draw, n) for n in (1, 4)], vocab=vocabulary(draw, 7), max_len=8),
        case("unknown words with another id", texts=[f"zzz {words(draw, 3)}", ""], vocab=vocabulary(draw, 9),
             max_len=8),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"lengths": [len(text.split()) for text in inputs["texts"]]}
    fields |= {"limit": inputs["max_len"]}
    ids, mask = (seen.get(name) for name in PARTS)
    fields |= {"ids": _sizes(ids), "want_ids": _sizes(wanted["input_ids"])} if isinstance(ids, Tensor) else {}
    if isinstance(mask, Tensor):
        fields |= {"mask": _sizes(mask), "real": int(mask.sum()), "want_real": int(wanted["attention_mask"].sum())}
    return fields | ({"returned": seen["returned"]} if "returned" in seen else {})


def _sizes(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


EXERCISE = Exercise(
    "encode",
    probe,
    cases,
    hints=(
        "Work on lists first: ids of each text, cut. Only then is it known how long the longest row is. What should "
        "stand in a row whose text has no words?",
        "From what is the mask made: from the ids, or from the lengths of the rows? Think of a customer who writes a "
        "word that has the padding's id.",
        "`torch.arange(t)` compared with the lengths as a column gives a bool matrix of the right shape. Are the "
        "lengths those before or after cutting?",
    ),
    any_device=False,
    quotes=quotes,
)
