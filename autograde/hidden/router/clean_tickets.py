"""The exercise `clean_tickets`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.clean_tickets import fresh, other, spelled
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Whether a ticket is contradicted is known only after its last row, so there are two passes: one collects the "
    "labels of each ticket, one decides row by row. Each row is counted in exactly one place, which makes the report "
    "add up; a report that adds up can be checked by whoever reads it."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-first-of-conflict", "compares-raw-text", "loses-order")
"""The mistakes that a check must always be able to name."""

Rows = list[tuple[str, str]]


class Cleaning:
    """A right cleaning; a mistake overrides one of its methods."""

    def __call__(self, rows: Rows) -> Any:
        labels: dict[str, list[str]] = {}
        for text, label in rows:
            labels.setdefault(self.key(text), []).append(label)
        kept: Rows = []
        report = {"duplicates": 0, "conflicts": 0, "empty": 0}
        seen: set[str] = set()
        for text, label in rows:
            key = self.key(text)
            if self.is_empty(text):
                report["empty"] += 1
            elif self.contradicts(labels[key], label):
                report["conflicts"] += 1
            elif key in seen:
                report["duplicates"] += 1
            else:
                seen.add(key)
                kept.append((self.written(text), label))
        return self.returned(kept, self.counted(report, labels))

    def key(self, text: str) -> str:
        return " ".join(text.split()).lower()

    def is_empty(self, text: str) -> bool:
        return not text.strip()

    def contradicts(self, labels: list[str], label: str) -> bool:
        return len(set(labels)) > 1

    def written(self, text: str) -> str:
        return text

    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        return report

    def returned(self, kept: Rows, report: dict[str, int]) -> Any:
        return kept, report


class Casefolds(Cleaning):
    def key(self, text: str) -> str:
        return " ".join(text.split()).casefold()


class KeepsTheFirst(Cleaning):
    def contradicts(self, labels: list[str], label: str) -> bool:
        return label != labels[0]


class IgnoresLabels(Cleaning):
    def contradicts(self, labels: list[str], label: str) -> bool:
        return False


class LooksForConflictsFirst(Cleaning):
    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        if len(set(labels.get("", []))) > 1:
            report["conflicts"] += report["empty"]
            report["empty"] = 0
        return report


class KeepsTheMajority(Cleaning):
    def contradicts(self, labels: list[str], label: str) -> bool:
        return label != Counter(labels).most_common(1)[0][0]


def keeps_the_majority_of_what_is_new(rows: Rows) -> Any:
    """Asks for the majority last, so that what follows a row that was kept is a copy."""
    right = Cleaning()
    votes: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for text, label in rows:
        votes.setdefault(right.key(text), Counter())[label] += 1
    kept: Rows = []
    report = {"duplicates": 0, "conflicts": 0, "empty": 0}
    for text, label in rows:
        key = right.key(text)
        wins = label == votes[key].most_common(1)[0][0]
        if key and key not in seen and wins:
            seen.add(key)
            kept.append((text, label))
        else:
            report["empty" if not key else "duplicates" if key in seen else "conflicts"] += 1
    return kept, report


def one_for_each_label(rows: Rows) -> Any:
    keys = [(" ".join(text.split()).lower(), label) for text, label in rows]
    kept = [row for i, row in enumerate(rows) if keys[i][0] and keys[i] not in keys[:i]]
    empty = sum(not key for key, _ in keys)
    return kept, {"duplicates": len(rows) - len(kept) - empty, "conflicts": 0, "empty": empty}


class RawText(Cleaning):
    def key(self, text: str) -> str:
        return text


class KeepsCapitals(Cleaning):
    def key(self, text: str) -> str:
        return " ".join(text.split())


class TrimsOnly(Cleaning):
    def key(self, text: str) -> str:
        return text.strip().lower()


class KnowsWhiteSpaceOfAscii(Cleaning):
    def key(self, text: str) -> str:
        return re.sub(r"[ \t\n\r\f\v]+", " ", text).strip().lower()


class KnowsSpacesTabsAndLineFeeds(Cleaning):
    def key(self, text: str) -> str:
        return re.sub(r"[ \t\n]+", " ", text).strip(" ").lower()

    def is_empty(self, text: str) -> bool:
        return not self.key(text)


class LowersOnly(Cleaning):
    def key(self, text: str) -> str:
        return text.lower()


class CollapsesButNeverTrims(Cleaning):
    def key(self, text: str) -> str:
        return re.sub(r"\s+", " ", text).lower()


class Sorted(Cleaning):
    def returned(self, kept: Rows, report: dict[str, int]) -> Any:
        return sorted(kept), report


class Grouped(Cleaning):
    def returned(self, kept: Rows, report: dict[str, int]) -> Any:
        return sorted(kept, key=lambda row: row[1]), report


class Backwards(Cleaning):
    def __call__(self, rows: Rows) -> Any:
        return super().__call__(rows[::-1])


class Normalises(Cleaning):
    def written(self, text: str) -> str:
        return self.key(text)


def keeps_the_last(rows: Rows) -> Any:
    clean = Cleaning()
    kept, report = clean(rows)
    last = {clean.key(text): (text, label) for text, label in rows}
    return [last[clean.key(text)] for text, _ in kept], report


class KeepsEmpty(Cleaning):
    def is_empty(self, text: str) -> bool:
        return False


class KnowsOnlyTheEmptyString(Cleaning):
    def is_empty(self, text: str) -> bool:
        return text == ""


class LeavesOutEmptyStringsFirst(Cleaning):
    def __call__(self, rows: Rows) -> Any:
        kept, report = super().__call__([row for row in rows if row[0]])
        return kept, {**report, "empty": sum(not text for text, _ in rows)}

    def is_empty(self, text: str) -> bool:
        return False


class CountsTickets(Cleaning):
    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        return {**report, "conflicts": sum(len(set(all_of)) > 1 for key, all_of in labels.items() if key)}


class CountsConflictsAsDuplicates(Cleaning):
    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        return {**report, "duplicates": report["duplicates"] + report["conflicts"]}


class CountsTheKeptToo(Cleaning):
    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        same = [all_of for key, all_of in labels.items() if key and len(all_of) > 1 and len(set(all_of)) == 1]
        return {**report, "duplicates": sum(map(len, same))}


class LacksZeros(Cleaning):
    def counted(self, report: dict[str, int], labels: dict[str, list[str]]) -> dict[str, int]:
        return {name: count for name, count in report.items() if count}


def counts_repeats_first(rows: Rows) -> Any:
    unique: dict[tuple[str, str], tuple[str, str]] = {}
    for text, label in rows:
        unique.setdefault((" ".join(text.split()).lower(), label), (text, label))
    filled = {pair: row for pair, row in unique.items() if pair[0]}
    times = Counter(key for key, _ in filled)
    kept = [row for (key, _), row in filled.items() if times[key] == 1]
    empty = sum(not text.strip() for text, _ in rows)
    return kept, {"duplicates": len(rows) - empty - len(filled), "conflicts": len(filled) - len(kept), "empty": empty}


class NoReport(Cleaning):
    def returned(self, kept: Rows, report: dict[str, int]) -> Any:
        return kept


class Trims(Cleaning):
    def written(self, text: str) -> str:
        return text.strip()


class CutsOffMarks(Cleaning):
    def key(self, text: str) -> str:
        return super().key(text).rstrip(".!?")


CLEAN = "Clean first"
KEPT = 'In the case "{case}" {got_kept} of {given} rows are kept, and {want_kept} should be: '
ORDER = 'In the case "{case}" the kept rows are not in the order of the input: '
REPORT = 'In the case "{case}" the {what} is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("keeps-first-of-conflict", KeepsTheFirst(), KEPT + "of rows that contradict each other the first stayed, "
            "among them {surplus}. Nothing says that the first label is the right one.", CLEAN),
    Mistake("keeps-first-of-conflict", IgnoresLabels(), KEPT + "labels were not compared at all, so {surplus} stayed "
            "with whatever label came first.", CLEAN),
    *(Mistake("keeps-majority-of-conflict", program, KEPT + "the most frequent label won, for {surplus}. A ticket that "
              "was labelled in two ways teaches nothing certain; all its rows are dropped.", CLEAN)
      for program in (KeepsTheMajority(), keeps_the_majority_of_what_is_new)),
    Mistake("keeps-both-of-conflict", one_for_each_label, KEPT + "text and label together were compared, so {surplus} "
            "stayed with two labels.", CLEAN),
    Mistake("compares-raw-text", RawText(), KEPT + "texts were compared as they were written, so {surplus} counted as "
            "a ticket of its own.", CLEAN),
    Mistake("casefolds", Casefolds(), KEPT + "`casefold` goes further than lower-casing: it makes ss of ß.", CLEAN),
    Mistake("compares-capitals", KeepsCapitals(), KEPT + "capitals made a difference: {surplus} stayed.", CLEAN),
    Mistake("compares-inner-space", TrimsOnly(), KEPT + "white space between words made a difference: {surplus} "
            "stayed.", CLEAN),
    Mistake("compares-all-space", LowersOnly(), KEPT + "white space made a difference, at the ends and between words: "
            "{surplus} stayed.", CLEAN),
    *(Mistake("lists-white-space", program, KEPT + "kinds of white space were listed, but not all of them: {surplus} "
              "stayed. `split()` and `\\s` know every kind.", CLEAN)
      for program in (KnowsSpacesTabsAndLineFeeds(), KnowsWhiteSpaceOfAscii())),
    Mistake("compares-outer-space", CollapsesButNeverTrims(), KEPT + "white space at the ends made a difference: "
            "{surplus} stayed.", CLEAN),
    Mistake("loses-order", Sorted(), ORDER + "they were sorted by text. Whoever holds another list about these rows "
            "can no longer match the two.", CLEAN),
    Mistake("loses-order", Grouped(), ORDER + "they come class by class. Got {got}.", CLEAN),
    Mistake("loses-order", Backwards(), ORDER + "they were gone through from the end. Got {got}.", CLEAN),
    Mistake("returns-normalised-text", Normalises(), 'In the case "{case}" the kept texts lack {missing}: the '
            "normalised form is for comparing; what is kept is the text as it was written.", CLEAN),
    Mistake("returns-trimmed-text", Trims(), 'In the case "{case}" the kept texts lack {missing}: white space at the '
            "ends was cut off, but the text should be kept as it was written.", CLEAN),
    Mistake("ignores-punctuation", CutsOffMarks(), KEPT + "punctuation at the end was ignored. Only white "
            "space and capitals should make no difference.", CLEAN),
    Mistake("keeps-the-last-copy", keeps_the_last, 'In the case "{case}" the kept texts lack {missing}: of the rows of '
            "one ticket the last stayed, but the first is asked for.", CLEAN),
    Mistake("keeps-empty", KeepsEmpty(), KEPT + "a ticket without a word says nothing about its queue.", CLEAN),
    Mistake("blank-is-not-empty", KnowsOnlyTheEmptyString(), KEPT + "{surplus} is empty after trimming, too.", CLEAN),
    Mistake("blank-is-not-empty", LeavesOutEmptyStringsFirst(), KEPT + "{surplus} is empty after trimming, too, and "
            "was looked at before trimming.", CLEAN),
    Mistake("empty-counts-as-conflict", LooksForConflictsFirst(), REPORT + "a row without a word is empty, whatever "
            "its label is; it was counted among the conflicts, because another such row has another label.", CLEAN),
    Mistake("counts-tickets-not-rows", CountsTickets(), REPORT + "each dropped row counts, not each ticket; otherwise "
            "the report does not add up to the rows that came in.", CLEAN),
    Mistake("counts-conflicts-twice", CountsConflictsAsDuplicates(), REPORT + "a dropped row is counted once, as a "
            "conflict or as a duplicate.", CLEAN),
    Mistake("counts-the-kept-row", CountsTheKeptToo(), REPORT + "the row that is kept was counted along with its "
            "copies.", CLEAN),
    Mistake("repeats-before-conflicts", counts_repeats_first, REPORT + "a repeated row of a ticket with several labels "
            "is a conflict like its other rows, but was counted as a duplicate.", CLEAN),
    Mistake("report-lacks-zeros", LacksZeros(), REPORT + "all three keys are always there, even where nothing was "
            "counted.", CLEAN),
    Mistake("returns-no-report", NoReport(), "The call gave {returned}; kept rows and report are asked for, in this "
            "order.", CLEAN),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    rows = fresh(draw, 30)
    for _ in range(25):
        text, label = draw.pick(rows)
        label = other(label) if draw.size(0, 3) == 0 else label
        rows.insert(draw.size(0, len(rows)), [spelled(draw, text.lower(), draw.size(0, 6)), label])
    rows.insert(draw.size(0, 9), ["\t", "account"])
    return [case("a drawn heap", rows=rows), case("only empty texts", rows=[["", "billing"], [" ", "billing"]])]


# Right answers unlike the reference


def by_groups(rows: Rows) -> Any:
    places = defaultdict(list)
    for place, (text, _) in enumerate(rows):
        places[re.sub(r"\s+", " ", text.strip()).lower()].append(place)
    empty = places.pop("", [])
    agreed = [p for p in places.values() if len({rows[i][1] for i in p}) == 1]
    kept = sorted(p[0] for p in agreed)
    copies = sum(len(p) - 1 for p in agreed)
    conflicts = sum(map(len, places.values())) - copies - len(agreed)
    return [rows[i] for i in kept], {"conflicts": conflicts, "duplicates": copies, "empty": len(empty)}


def with_a_counter(rows: Rows) -> Any:
    def normal(text: str) -> str:
        return " ".join(text.lower().split())

    pairs = Counter((normal(text), label) for text, label in rows)
    labels = Counter(key for key, _ in pairs)
    filled = [row for row in rows if normal(row[0])]
    sure = [row for row in filled if labels[normal(row[0])] == 1]
    first: dict[str, tuple[str, str]] = {}
    for row in sure:
        first.setdefault(normal(row[0]), row)
    return list(first.values()), {
        "empty": len(rows) - len(filled), "conflicts": len(filled) - len(sure), "duplicates": len(sure) - len(first),
    }  # fmt: skip


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_groups, with_a_counter]
