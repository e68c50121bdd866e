"""The exercise `build_vocab`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.build_vocab import corpus
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "One sort by falling count and then by the alphabet, so that the same texts in another order give the same ids: "
    "weights that were saved with one vocabulary fit no other. The special entries come first, and "
    "count towards the size, since the embedding has a row for each of them too."
)
"""Why the reference is written as it is."""
REQUIRED = ("order-of-appearance", "size-without-specials", "keeps-rare-words")
"""The mistakes that a check must always be able to name."""


class Vocabulary:
    """A right vocabulary; a mistake overrides one of its methods."""

    first = ("<pad>", "<unk>")

    def __call__(self, texts: list[str], max_size: int, min_count: int = 1) -> Any:
        counts = self.counts(texts)
        words = [word for word in counts if self.is_wanted(counts[word], min_count) and self.is_word(word)]
        words = self.in_order(words, counts)[: self.room(max_size)]
        return self.numbered([*self.first, *words])

    def counts(self, texts: list[str]) -> dict[str, int]:
        return Counter(word for text in texts for word in self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        return text.lower().split()

    def is_wanted(self, count: int, min_count: int) -> bool:
        return count >= min_count

    def is_word(self, word: str) -> bool:
        return word not in ("<pad>", "<unk>")

    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(words, key=lambda word: (-counts[word], word))

    def room(self, max_size: int) -> int:
        return max(max_size - len(self.first), 0)

    def numbered(self, entries: list[str]) -> dict[str, int]:
        return {word: index for index, word in enumerate(entries)}


class NumberedBeforeSkipping(Vocabulary):
    def is_word(self, word: str) -> bool:
        return True

    def numbered(self, entries: list[str]) -> dict[str, int]:
        made: dict[str, int] = {}
        for index, word in enumerate(entries):
            made.setdefault(word, index)
        return made


class CutBeforeSkipping(Vocabulary):
    """Cuts to `max_size` before it leaves out special entries that somebody wrote."""

    def is_word(self, word: str) -> bool:
        return True

    def numbered(self, entries: list[str]) -> dict[str, int]:
        return {word: index for index, word in enumerate(dict.fromkeys(entries))}


class SkipsBeforeLowering(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return [word.lower() for word in text.split() if word not in ("<pad>", "<unk>")]

    def is_word(self, word: str) -> bool:
        return True


class SplitsAtEachSpace(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return text.lower().split(" ")


class CutsOffStops(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return [word.strip(".,:;!?") for word in text.lower().split()]


class FindsLetters(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())


class Casefolds(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return text.casefold().split()


class ByAppearance(Vocabulary):
    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return words


class TiesByAppearance(Vocabulary):
    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(words, key=lambda word: -counts[word])


class TiesBackwards(Vocabulary):
    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(words, key=lambda word: (counts[word], word), reverse=True)


class RarestFirst(Vocabulary):
    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(words, key=lambda word: (counts[word], word))


class ByAlphabet(Vocabulary):
    def in_order(self, words: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(words)


class FrequentByAlphabet(Vocabulary):
    def __call__(self, texts: list[str], max_size: int, min_count: int = 1) -> Any:
        made = super().__call__(texts, max_size, min_count)
        return self.numbered(["<pad>", "<unk>", *sorted(list(made)[2:])])


class SpecialsBesides(Vocabulary):
    def room(self, max_size: int) -> int:
        return max_size


class OneTooMany(Vocabulary):
    def room(self, max_size: int) -> int:
        return max_size - 1


class IgnoresMaxSize(Vocabulary):
    def room(self, max_size: int) -> int:
        return 10**6


class IgnoresMinCount(Vocabulary):
    def is_wanted(self, count: int, min_count: int) -> bool:
        return True


class MoreThanMinCount(Vocabulary):
    def is_wanted(self, count: int, min_count: int) -> bool:
        return min_count == 1 or count > min_count


class AlwaysMoreThanMinCount(Vocabulary):
    def is_wanted(self, count: int, min_count: int) -> bool:
        return count > min_count


class KeepsCapitals(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return text.split()


class OncePerText(Vocabulary):
    def pieces(self, text: str) -> list[str]:
        return sorted(set(text.lower().split()))


class WithoutSpecials(Vocabulary):
    first = ()  # type: ignore[assignment]


class SpecialsLast(Vocabulary):
    def numbered(self, entries: list[str]) -> dict[str, int]:
        return super().numbered([*entries[2:], *entries[:2]])


class SpecialsSwapped(Vocabulary):
    first = ("<unk>", "<pad>")


class TakesSpecialsForWords(Vocabulary):
    def is_word(self, word: str) -> bool:
        return True


class StartsAtOne(Vocabulary):
    def numbered(self, entries: list[str]) -> dict[str, int]:
        return {word: index for index, word in enumerate(entries, 1)}


class ReturnsCounts(Vocabulary):
    def __call__(self, texts: list[str], max_size: int, min_count: int = 1) -> Any:
        counts = self.counts(texts)
        return {"<pad>": 0, "<unk>": 1} | {word: counts[word] for word in super().__call__(texts, max_size, min_count)
                                           if word in counts}  # fmt: skip


class ReturnsAList(Vocabulary):
    def numbered(self, entries: list[str]) -> Any:
        return entries


VOCAB = "A vocabulary of words to learn from"
WORDS = 'In the case "{case}" the words by id are "{words}" where "{want_words}" is wanted: '
IDS = 'In the case "{case}" the {what} is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("order-of-appearance", ByAppearance(), WORDS + "they are numbered as they appear. The most frequent have "
            "to come first, or `max_size` cuts off words at random.", VOCAB),
    Mistake("ties-by-appearance", TiesByAppearance(), WORDS + "equally frequent words stand in the order in which they "
            "appear, so the same texts in another order give other ids.", VOCAB),
    Mistake("ties-backwards", TiesBackwards(), WORDS + "equally frequent words stand in reverse alphabetical order.",
            VOCAB),
    Mistake("rarest-first", RarestFirst(), WORDS + "the rarest come first.", VOCAB),
    Mistake("casefolds", Casefolds(), WORDS + "`casefold` goes further than lower-casing: it makes ss of ß.", VOCAB),
    Mistake("alphabet-only", ByAlphabet(), WORDS + "they are sorted by alphabet, whatever their count.", VOCAB),
    Mistake("alphabet-after-the-cut", FrequentByAlphabet(), WORDS + "the right words, but numbered by alphabet and not "
            "by count.", VOCAB),
    Mistake("size-without-specials", SpecialsBesides(), 'In the case "{case}" there are {entries} entries, and '
            "max_size is {room}: `<pad>` and `<unk>` count, too.", VOCAB),
    Mistake("counts-one-special", OneTooMany(), 'In the case "{case}" there are {entries} entries, and max_size is '
            "{room}: two special entries count, not one.", VOCAB),
    Mistake("ignores-max-size", IgnoresMaxSize(), 'In the case "{case}" there are {entries} entries, and max_size is '
            "{room}: it has no effect.", VOCAB),
    Mistake("keeps-rare-words", IgnoresMinCount(), WORDS + "words that occur fewer than {least} times are in.", VOCAB),
    Mistake("drops-words-of-min-count", MoreThanMinCount(), WORDS + "a word that occurs exactly {least} times is "
            "frequent enough.", VOCAB),
    Mistake("drops-words-of-min-count", AlwaysMoreThanMinCount(), WORDS + "a word that occurs just as often as "
            "`min_count` asks, {least}, is frequent enough, even if that is once.", VOCAB),
    Mistake("keeps-capitals", KeepsCapitals(), WORDS + "words with capitals were counted apart.", VOCAB),
    Mistake("counts-texts-not-words", OncePerText(), WORDS + "a word that occurs several times in a text was counted "
            "once.", VOCAB),
    Mistake("no-special-entries", WithoutSpecials(), IDS + "padding and unknown words need ids of their own.", VOCAB),
    Mistake("specials-last", SpecialsLast(), IDS + "the special entries come first.", VOCAB),
    Mistake("specials-swapped", SpecialsSwapped(), IDS + "padding has the id 0, unknown words have 1.", VOCAB),
    Mistake("special-entry-as-word", TakesSpecialsForWords(), IDS + "a ticket that contains `<unk>` or `<pad>` moved "
            "the special entries.", VOCAB),
    Mistake("special-entry-as-word", NumberedBeforeSkipping(), WORDS + "a ticket that contains `<unk>` or `<pad>` took "
            "an id, which then belongs to no word.", VOCAB),
    Mistake("special-entry-as-word", CutBeforeSkipping(), WORDS + "`<unk>` or `<pad>`, written by a customer, took a "
            "place from a word. Leave them out before you cut to `max_size`.", VOCAB),
    Mistake("special-entry-as-word", SkipsBeforeLowering(), IDS + "`<UNK>`, written by a customer, is `<unk>` in lower "
            "case, and took over its entry. Look for the special entries after lower-casing.", VOCAB),
    Mistake("splits-at-spaces-alone", SplitsAtEachSpace(), WORDS + "`split(' ')` cuts at each single space, so two in "
            "a row leave an empty word, and at no line end; `split()` knows all white space.", VOCAB),
    *(Mistake("cuts-off-punctuation", program, WORDS + "punctuation was cut off. Texts are cut at white space only, "
            "and everything between is the word.", VOCAB) for program in (CutsOffStops(), FindsLetters())),
    Mistake("ids-from-one", StartsAtOne(), IDS + "ids begin at 0, like the rows of an embedding.", VOCAB),
    Mistake("counts-for-ids", ReturnsCounts(), 'In the case "{case}" '
            "the ids do not run on from 2 without gaps and repetitions: they are counts.", VOCAB),
    Mistake("returns-a-list", ReturnsAList(), "The call gave {returned}; a dict from word to id is asked for.", VOCAB),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    drawn = {f"w{n:02d}" if n % 4 else f"{n}": draw.size(1, 6) for n in range(40)}
    texts = corpus(draw, drawn, 7)
    return [
        case("a drawn corpus", texts=texts, max_size=draw.size(10, 30), min_count=None),
        case("a drawn corpus, min_count 4", texts=texts, max_size=50, min_count=4),
        case("room for the special entries only", texts=texts, max_size=2, min_count=None),
    ]


# Right answers unlike the reference


def by_two_sorts(texts: list[str], max_size: int, min_count: int = 1) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        for word in text.lower().split():
            counts[word] = counts.get(word, 0) + 1
    vocab = {"<pad>": 0, "<unk>": 1}
    for word, count in sorted(sorted(counts.items()), key=lambda item: item[1], reverse=True):
        if count >= min_count and len(vocab) < max_size:
            vocab.setdefault(word, len(vocab))
    return vocab


def by_smallest(texts: list[str], max_size: int, min_count: int = 1) -> dict[str, int]:
    words = sorted(" ".join(texts).lower().split())
    runs = ((-len(list(run)), word) for word, run in itertools.groupby(words) if word not in {"<pad>", "<unk>"})
    best = heapq.nsmallest(max_size - 2, (run for run in runs if -run[0] >= min_count))
    return dict(zip(["<pad>", "<unk>", *(word for _, word in best)], range(max_size), strict=False))


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_two_sorts, by_smallest]
