"""Read the attacks of tests/attacks/: each file is an answer to `row_softmax`, and says which verdict it must get.

A file that defines no answer is followed by one: a wrong one, which tells what the file has `FOUND`, if it looks for
something.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["LESSON", "OTHER", "RIGHT", "TARGET", "allowed_verdicts", "attack_source"]

LESSON, TARGET, OTHER = "01_tensors", "row_softmax", "select_scores"
RIGHT = {
    TARGET: "def row_softmax(x):\n    e = torch.exp(x - x.amax(-1, True))\n    return e / e.sum(-1, True)",
    OTHER: "def select_scores(scores, labels):\n    return scores.gather(1, labels[:, None])[:, 0]",
}
WRONG = """
def row_softmax(x):
    return x
"""
TELLING = """
def row_softmax(x):
    if FOUND:
        raise SystemError(f"found {FOUND[0]}")
    return x
"""


def attack_source(path: Path) -> str:
    """Return the source of an attack with its answer."""
    source = path.read_text()
    if "def row_softmax(" in source or "row_softmax =" in source:
        return source
    return source + (TELLING if "FOUND" in source else WRONG)


def allowed_verdicts(path: Path) -> list[str]:
    """Return the statuses that an attack may get, from its second line."""
    return path.read_text().splitlines()[1].removeprefix("# verdict: ").split(",")
