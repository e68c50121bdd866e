"""Find pairs of learners whose answers are similar, which is only a reason to look at them.

An answer is compared as a sequence of tokens: one token stands for all names of the learner's own, and comments,
docstrings, layout and whatever is in the released stub are left out. Its *shingles* are all runs of five tokens. Two
answers to an exercise are similar if they share at least 80 % of their shingles (Jaccard's index; Broder, "On the
resemblance and containment of documents", 1997). The weight of a similar pair depends on how rare the shared shingles
are: log2(n / m) bits among n learners, where the rarest tenth of them is in the answers of at most m learners. So what
everybody writes has no weight.

The pairs shown weigh at least as many bits as it takes to identify one pair of the class. A learner's exercises are not
independent of each other, so this is a rule of thumb and not a probability.

Pairs are found through an index from shingles to answers. Equal answers are compared once, and shingles that are in
many different answers lead to no pair, so the work grows with the number of answers and not with its square.
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
from statistics import fmean

__all__ = ["MIN_SHINGLES", "SHINGLE", "SIMILAR", "Pair", "similar_pairs", "tokens"]

SHINGLE = 5
MIN_SHINGLES = 30
"""Answers with fewer different shingles are left out: there are few ways to write them."""
SIMILAR = 0.8
MAX_SOURCE_LENGTH = 8000
"""Characters of an answer that are compared."""
MAX_ANSWERS = 12
"""A shingle in more different answers than these leads to no pair."""
MAX_LEARNERS = 60
"""No pairs are reported where two groups of learners with equal answers would make more than this."""

COMMON_NAMES = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "torch", "nn", "F", "np", "math", "self", "cls"}
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip

END = tokenize.TokenInfo(tokenize.ENDMARKER, "", (0, 0), (0, 0), "")

Shingle = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two learners with similar answers: the exercises, the mean similarity from 0 to 1, and the weight in bits."""

    one: str
    other: str
    exercises: tuple[str, ...]
    similarity: float
    bits: float


def tokens(source: str) -> list[str]:
    """Return the tokens of a program, with "name" for its own names and without comments, docstrings and layout.

    If a program cannot be tokenized to its end, the tokens up to there.
    """
    found: list[str] = []
    is_statement_start = True  # whether a string here would be a statement of its own, such as a docstring
    for token, next_token in itertools.pairwise([*_tokenized(source), END]):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and is_statement_start):
            continue
        is_statement_start = token.type in LAYOUT
        if not is_statement_start:
            before = found[-1] if found else ""
            is_attribute, is_keyword = before == ".", before in ("(", ",") and next_token.string == "="
            own = token.type == tokenize.NAME and token.string not in COMMON_NAMES and not (is_attribute or is_keyword)
            found.append("name" if own else token.string)
    return found


def _tokenized(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source[:MAX_SOURCE_LENGTH]).readline)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _shingles(source: str, stub: frozenset[Shingle] = frozenset()) -> frozenset[Shingle]:
    run = tokens(source)
    return frozenset(tuple(run[i : i + SHINGLE]) for i in range(len(run) - SHINGLE + 1)) - stub


def similar_pairs(answers: Mapping[str, Mapping[str, str]], stubs: Mapping[str, str]) -> list[Pair]:
    """Return the pairs of learners with similar answers, those of largest weight first.

    Args:
        answers: for each exercise the source of each learner's answer.
        stubs: the released source of each exercise; shingles of it do not count.
    """
    found: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for exercise, sources in answers.items():
        for one, other, similarity, bits in _similar_in(sources, stubs.get(exercise, "")):
            found[one, other].append((exercise, similarity, bits))
    pairs = [
        Pair(one, other, tuple(e for e, _, _ in items), fmean(s for _, s, _ in items), sum(b for _, _, b in items))
        for (one, other), items in found.items()
    ]
    count = len({learner for sources in answers.values() for learner in sources})
    heavy = [pair for pair in pairs if pair.bits >= math.log2(max(2, count * (count - 1) / 2))]
    return sorted(heavy, key=lambda pair: (-pair.bits, pair.one, pair.other))


def _similar_in(sources: Mapping[str, str], stub: str) -> Iterator[tuple[str, str, float, float]]:
    """Yield the similar pairs in one exercise, with their similarity and its weight in bits."""
    released = _shingles(stub)
    learners: dict[frozenset[Shingle], list[str]] = defaultdict(list)
    for learner, source in sorted(sources.items()):
        learners[_shingles(source, released)].append(learner)
    frequency = Counter[Shingle]()
    for shingles, group in learners.items():
        frequency.update(dict.fromkeys(shingles, len(group)))
    different = [shingles for shingles in learners if len(shingles) >= MIN_SHINGLES]
    for shingles in different:
        group = learners[shingles]
        if 1 < len(group) <= MAX_LEARNERS:
            bits = _bits(shingles, frequency, len(sources))
            yield from ((one, other, 1.0, bits) for one, other in itertools.combinations(group, 2))
    for one, other in _candidates(different):
        shared = one & other
        similarity = len(shared) / len(one | other)
        if similarity >= SIMILAR and len(learners[one]) * len(learners[other]) <= MAX_LEARNERS:
            bits = _bits(shared, frequency, len(sources))
            for pair in itertools.product(learners[one], learners[other]):
                yield min(pair), max(pair), similarity, bits


def _bits(shared: Iterable[Shingle], frequency: Mapping[Shingle, int], learners: int) -> float:
    """Return log2(n / m), where at most m of n learners have the rarest tenth of the shared shingles."""
    counts = sorted(frequency[shingle] for shingle in shared)
    return math.log2(learners / counts[len(counts) // 10])


def _candidates(different: list[frozenset[Shingle]]) -> Iterator[tuple[frozenset[Shingle], frozenset[Shingle]]]:
    """Return the pairs of answers that share a shingle of few answers, each pair once."""
    holders: dict[Shingle, list[int]] = defaultdict(list)
    for place, shingles in enumerate(different):
        for shingle in shingles:
            holders[shingle].append(place)
    pairs = {pair for few in holders.values() if 1 < len(few) <= MAX_ANSWERS
             for pair in itertools.combinations(few, 2)}  # fmt: skip
    return ((different[one], different[other]) for one, other in sorted(pairs))
