"""Which learners' answers look alike: a hint to look, and nothing more.

An answer is compared as its sequence of tokens, with the learner's own names made one, and without comments,
docstrings, layout and whatever the released stub has. Its *shingles* are all runs of five tokens. Two answers to an
exercise are alike if they share at least 80 % of their shingles (Jaccard's index; Broder, "On the resemblance and
containment of documents", 1997). What an alike pair weighs depends on how rare that is which they share: log2(n / m)
bits among n learners, where the rarest tenth of the shared shingles stands in the answers of at most m of them. So what
everybody writes weighs nothing.

The pairs shown weigh at least as many bits as it takes to point at one pair of the class. A learner's exercises are not
independent of each other, so that is a rule of thumb and no probability.

Pairs are found through an index from shingles to answers. Answers that are equal are compared once, and shingles that
stand in many different answers lead to no pair, so the work grows with the number of answers and not with its square.
"""

from __future__ import annotations

import builtins
import io
import itertools
import keyword
import math
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

__all__ = ["ALIKE", "SHINGLE", "SHORTEST", "Pair", "alike", "tokens"]

SHINGLE = 5
SHORTEST = 30
"""Answers with fewer different shingles of their own are left out: there are few ways to write them."""
ALIKE = 0.8
LONGEST = 8000
"""Characters of an answer that are looked at."""
MOST_ANSWERS = 12
"""A shingle that stands in more different answers than that leads to no pair."""
MOST_LEARNERS = 60
"""An answer that more learners than that have, letter for letter, leads to no pair."""

KEPT = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "torch", "nn", "F", "np", "math", "self", "cls"}
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip

END = tokenize.TokenInfo(tokenize.ENDMARKER, "", (0, 0), (0, 0), "")

Shingle = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two learners whose answers look alike: in which exercises, how much on average, and what that weighs in bits."""

    one: str
    other: str
    exercises: tuple[str, ...]
    likeness: float
    bits: float


def tokens(source: str) -> list[str]:
    """The tokens of a program with its own names made one, without comments, docstrings and layout. What cannot be
    tokenized to its end gives the tokens before that."""
    found: list[str] = []
    starts = True  # whether a string here would be a statement of its own, such as a docstring
    for token, after in itertools.pairwise([*_tokenized(source), END]):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts):
            continue
        starts = token.type in LAYOUT
        if not starts:
            before = found[-1] if found else ""
            theirs = before == "." or (before in ("(", ",") and after.string == "=")  # an attribute, a keyword argument
            own = token.type == tokenize.NAME and token.string not in KEPT and not theirs
            found.append("name" if own else token.string)
    return found


def _tokenized(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source[:LONGEST]).readline)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _shingles(source: str, stub: frozenset[Shingle] = frozenset()) -> frozenset[Shingle]:
    run = tokens(source)
    return frozenset(tuple(run[i : i + SHINGLE]) for i in range(len(run) - SHINGLE + 1)) - stub


def alike(answers: Mapping[str, Mapping[str, str]], stubs: Mapping[str, str]) -> list[Pair]:
    """The pairs of learners whose answers look alike, those that weigh most first.

    Args:
        answers: for each exercise, for each learner the source of the answer.
        stubs: the released source of each exercise; what is in it counts for nothing.
    """
    found: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for exercise, sources in answers.items():
        for one, other, likeness, bits in _alike_in(sources, stubs.get(exercise, "")):
            found[one, other].append((exercise, likeness, bits))
    pairs = [
        Pair(*who, tuple(e for e, _, _ in what), sum(s for _, s, _ in what) / len(what), sum(b for _, _, b in what))
        for who, what in found.items()
    ]
    count = len({learner for sources in answers.values() for learner in sources})
    heavy = [pair for pair in pairs if pair.bits >= math.log2(max(2, count * (count - 1) / 2))]
    return sorted(heavy, key=lambda pair: (-pair.bits, pair.one, pair.other))


def _alike_in(sources: Mapping[str, str], stub: str) -> Iterator[tuple[str, str, float, float]]:
    """The pairs that are alike in one exercise, with their likeness and what it weighs."""
    released = _shingles(stub)
    learners: dict[frozenset[Shingle], list[str]] = defaultdict(list)
    for learner, source in sorted(sources.items()):
        learners[_shingles(source, released)].append(learner)
    written = Counter[Shingle]()
    for shingles, who in learners.items():
        written.update(dict.fromkeys(shingles, len(who)))
    different = [shingles for shingles in learners if len(shingles) >= SHORTEST]
    for shingles in different:
        who = learners[shingles]
        if 1 < len(who) <= MOST_LEARNERS:
            bits = _bits(shingles, written, len(sources))
            yield from ((one, other, 1.0, bits) for one, other in itertools.combinations(who, 2))
    for one, other in _candidates(different):
        shared = one & other
        likeness = len(shared) / len(one | other)
        if likeness >= ALIKE and len(learners[one]) * len(learners[other]) <= MOST_LEARNERS:
            bits = _bits(shared, written, len(sources))
            for pair in itertools.product(learners[one], learners[other]):
                yield min(pair), max(pair), likeness, bits


def _bits(shared: Iterable[Shingle], written: Mapping[Shingle, int], learners: int) -> float:
    """log2(n / m): the rarest tenth of the shared shingles stands in the answers of at most m of n learners."""
    counts = sorted(written[shingle] for shingle in shared)
    return math.log2(learners / counts[len(counts) // 10])


def _candidates(different: list[frozenset[Shingle]]) -> Iterator[tuple[frozenset[Shingle], frozenset[Shingle]]]:
    """The pairs of answers that share a shingle which few answers have, each pair once."""
    holders: dict[Shingle, list[int]] = defaultdict(list)
    for place, shingles in enumerate(different):
        for shingle in shingles:
            holders[shingle].append(place)
    pairs = {pair for few in holders.values() if 1 < len(few) <= MOST_ANSWERS
             for pair in itertools.combinations(few, 2)}  # fmt: skip
    return ((different[one], different[other]) for one, other in sorted(pairs))
