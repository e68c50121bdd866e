"""The exercise `clean_tickets`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

COUNTS = ("duplicates", "conflicts", "empty")
WORDS = ("card", "invoice", "login", "crash", "refund", "photo", "mail", "plan", "error", "price", "sync", "name")
LABELS = ("billing", "technical", "account")


def probe(answer: Watched, rows: list[list[str]]) -> Observations:
    """Clean tickets, and observe what is kept and what is counted."""
    given: list[tuple[str, str]] = [(text, label) for text, label in rows]
    made = answer(given)
    changed = given != [(text, label) for text, label in rows]
    if not (isinstance(made, tuple | list) and len(made) == 2):
        return {"returned": f"{kind(made)}, where a pair of a list and a dict is wanted"}
    kept, report = made
    seen: Observations = {"rows afterwards": "changed" if changed else "as before"}
    seen["kept"] = [_row(row) for row in kept] if isinstance(kept, list) else kind(kept)
    for name in COUNTS:
        seen[f"report of {name}"] = report.get(name, "missing") if isinstance(report, dict) else kind(report)
    return seen


def _row(row: Any) -> Any:
    return list(row) if isinstance(row, tuple | list) else kind(row)


def spelled(draw: Draw, text: str, way: int) -> str:
    """Return a text with other white space or capitals, which is the same ticket still; way 0 leaves it as it is."""
    words = text.split()
    ways = (text, text.upper(), "  ".join(words), f" {text}\n", "\t".join(words).title(), "\r\n".join(words),
            "\xa0" + " \f\xa0".join(words) + "\r\n")  # fmt: skip
    return ways[way]


def fresh(draw: Draw, count: int) -> list[list[str]]:
    """Draw rows that are different tickets, in no alphabetical order."""
    texts: list[str] = []
    while len(texts) < count:
        text = f"{draw.pick(WORDS).capitalize()} {draw.pick(WORDS)} {draw.size(10, 99)}"
        if text not in texts:
            texts.append(text)
    if texts == sorted(texts):
        texts.reverse()
    return [[text, draw.pick(LABELS)] for text in texts]


def other(label: str) -> str:
    """Return another label."""
    return LABELS[(LABELS.index(label) + 1) % len(LABELS)]


def cases(draw: Draw) -> list[Case]:
    plain, twice, spelt, at_odds, many, empty, lines = (fresh(draw, 6) for _ in range(7))
    again = [[spelled(draw, text, way), label] for way, (text, label) in enumerate(spelt[1:5], 1)]
    windows = [[spelled(draw, text, way), label] for way, (text, label) in enumerate(lines[2:4], 5)]
    conflict = [at_odds[1][0], other(at_odds[1][1])]
    votes = [[spelled(draw, many[2][0], way), other(many[2][1])] for way in (0, 3)]
    spelt[0][0] = spelled(draw, spelt[0][0], 3)
    sure = [[text, LABELS[0]] for text in ("Refund", "Refund!", "refund?")]
    return [
        case("all different", rows=plain),
        case("two tickets twice", rows=[*twice, twice[1], twice[4], twice[1]]),
        case("the same in other spelling", rows=[*spelt, *again]),
        case("line ends of Windows", rows=[*lines, ["\r\n", LABELS[0]], *windows]),
        case("one ticket with two labels", rows=[*at_odds, conflict]),
        case("two labels for one, with a majority", rows=[*many, *votes]),
        case("empty texts", rows=[*empty[:3], ["", LABELS[0]], *empty[3:], [" \n", LABELS[0]], ["", LABELS[0]]]),
        case("empty texts with two labels", rows=[[" ", LABELS[0]], *empty[:2], ["", LABELS[1]]]),
        case("no rows", rows=[]),
        case("with and without a mark at the end", rows=[*sure, ["Refund.", LABELS[1]]]),
        case("ß is not ss", rows=[["Straße 5", LABELS[0]], ["STRASSE 5", LABELS[1]], ["strasse 5", LABELS[1]]]),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    kept = seen.get("kept")
    fields: dict[str, object] = {"given": len(inputs["rows"]), "want_kept": len(wanted["kept"])}
    if isinstance(kept, list):
        lost = [row for row in wanted["kept"] if row not in kept]
        more = [row for row in kept if row not in wanted["kept"]] or [row for row in kept if kept.count(row) > 1]
        fields |= {"got_kept": len(kept)}
        fields |= {"missing": repr(lost[0][0])} if lost else {}
        fields |= {"surplus": repr(more[0][0])} if more and isinstance(more[0], list) and more[0] else {}
    return fields | ({"returned": seen["returned"]} if "returned" in seen else {})


EXERCISE = Exercise(
    "clean_tickets",
    probe,
    cases,
    hints=(
        "What makes two rows the same ticket is a key that you compute from the text. What does `str.split` without "
        "arguments do to spaces at the ends and to several in a row?",
        "When you meet the first row of a ticket, do you know already whether a later row contradicts it? How often "
        "do you have to go through the rows, then?",
        "In a first pass collect, for each key, the set of its labels. In a second pass each row falls into exactly "
        "one of four drawers: empty, conflict, duplicate, kept.",
    ),
    any_device=False,
    quotes=quotes,
)
