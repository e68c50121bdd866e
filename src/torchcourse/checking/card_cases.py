"""The cases on a card: the first that fails in full, all of them in a table, and what the answer printed in each."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchcourse.checking.differences import brief, difference_texts
from torchcourse.checking.pictures import pictures
from torchcourse.checking.report import Report
from torchcourse.checking.result import Result
from torchcourse.checking.run_record import OwnLine, RunRecord
from torchcourse.model.observations import kind

__all__ = ["cases_as_html", "cases_as_text", "outcome_as_text"]

MARKS = {True: "✓", False: "✗"}
DEVICES = {"cpu": "CPU", "cuda": "GPU", "simulated": "simulated second device"}
PRINTED_WIDTH = 60
"""Characters of the first printed line that a card shows without unfolding anything."""
LINES_IN_VIEW = 2
"""How many lines of an answer that raised a card shows without unfolding anything; one if a sentence explains it."""
LONG_SENTENCE = 250
"""Characters of the sentence on a card from which the values below it get one line and not two; the table has them."""
LONG_VALUES = 80
"""Characters of what came out and what was wanted, together, from which they are not said twice."""
START_OF_ERROR = 60
"""Characters of an exception; it is not said twice if the sentence on a card has them."""
INPUT_LINES, INPUT_WIDTH = 8, 100
"""How much of each input is written out."""


def cases_as_text(report: Report, record: RunRecord) -> list[str]:
    """Return the cases as lines of plain text, what came out and what was wanted below the first that fails."""
    first = next((r for r in report.results if not r.passed), None)
    lines = []
    for name, group in _by_case(report.results):
        lines.append(f"  {MARKS[all(r.passed for r in group)]} {name}{_devices(group)}")
        if first and any(result is first for result in group):  # `in` would compare tensors
            lines += _failure_as_text(first, record)
    return lines


def _failure_as_text(failed: Result, record: RunRecord) -> list[str]:
    lines = [*outcome_as_text(failed, record), *_inputs(failed.case.inputs).splitlines()]
    if printed := record.printed.get((failed.number, failed.device)):
        lines += ["printed:", *(f"  {line}" for line in printed.splitlines())]
    return [f"      {line}" for line in lines]


def outcome_as_text(failed: Result, record: RunRecord) -> list[str]:
    """Return what came out of a failed case and what was wanted, below the lines of the answer that raised."""
    label, got, want = _difference(failed)
    own = [str(line) for line in record.lines_of(failed)]
    return [*own, f"came out: {label}{got}", f"wanted:   {want}"]


def cases_as_html(report: Report, record: RunRecord, sentence: str, first: str = "", last: str = "") -> str:
    """Return the cases as HTML: the one that the sentence is about in view, the rest folded; "" if there are none.

    Args:
        report: the outcome of a check.
        record: what the answer printed, and where it raised.
        sentence: what the card says in view.
        first: HTML to fold with the cases, above them.
        last: HTML to fold with the cases, below them.
    """
    if not report.results:
        return ""
    rows = [_row(name, group) for name, group in _by_case(report.results)]
    passed = sum(all(r.passed for r in group) for _, group in _by_case(report.results))
    columns = (for_screen_readers("", "outcome"), "case", "what came out", "what was wanted")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    summary = f"<summary>{passed} of {len(rows)} cases pass{'; more, and help' * (last != '')}</summary>"
    failed = next((r for r in report.results if not r.passed), None)
    seen = f"{pictures(failed)}{_inputs_of(report, failed)}" if failed else ""
    about = report.example or failed
    lines = record.lines_of(about) if about else []
    count = 1 if report.misconception else LINES_IN_VIEW
    quotes_error = about is not None and _quotes_error(report.message, about)
    in_view = _first_failure(about, lines[-count:], sentence, quotes_error) if about else ""
    callers = _callers(lines[:-count])
    return f"{in_view}<details>{summary}{callers}{first}{table}{seen}{last}</details>{_printed(report, record)}"


def _quotes_error(message: str, failed: Result) -> bool:
    """Return whether a message has the exception of a case, at least the start of it."""
    error = failed.seen.get("raised")
    return error is not None and " ".join(str(error).split())[:START_OF_ERROR] in " ".join(message.split())


def _first_failure(failed: Result, lines: Sequence[OwnLine], sentence: str, quotes_error: bool) -> str:
    """Return a failed case in a line; if it raised, these lines of the answer that raised.

    The exception, or long values, are left out if the `sentence` above quotes them.
    """
    where = f"{html.escape(failed.case.name)}, {DEVICES[failed.device]}"
    mark = for_screen_readers(MARKS[False], "failed case")
    if lines:
        said = "" if quotes_error else f"{html.escape(brief(failed.seen.get('raised', '')))}<br>"
        return f'<div class="tc-first">{mark} {where} · {said}{"<br>".join(map(_in_one_line, lines))}</div>'
    label, *values = _difference(failed)
    if quotes_error or (sum(map(len, values)) > LONG_VALUES and all(value in sentence for value in values)):
        return f'<div class="tc-first">{mark} {where}</div>'
    got, want = map(html.escape, values)
    what = f'<span class="tc-dim">{html.escape(label)}</span>{got}'
    wanted = f'<span class="tc-dim">wanted: </span>{want}'
    short = " tc-short" if len(sentence) > LONG_SENTENCE else ""
    return f'<div class="tc-first tc-values{short}">{mark} {where} · {what} · {wanted}</div>'


def _callers(lines: Sequence[OwnLine]) -> str:
    """Return the lines of the answer that led to those in view, outermost first."""
    return f"<p>Called from<br>{'<br>'.join(map(_program_line, lines))}</p>" if lines else ""


def _program_line(line: OwnLine) -> str:
    return f"<code>{html.escape(str(line))}</code>"


def _in_one_line(line: OwnLine) -> str:
    """Return a line of the answer that a card cuts off where it is too long; the whole of it shows under the mouse."""
    text = html.escape(str(line))
    return f'<code class="tc-source" title="{text}">{text}</code>'


def program(label: str, text: str) -> str:
    """Return a text as it stands, in a box that keyboards reach and that screen readers call by its label."""
    return f'<pre tabindex="0" aria-label="{label}"><code>{html.escape(text)}</code></pre>'


def for_screen_readers(mark: str, words: str) -> str:
    """Return a visible mark, and words that screen readers read in its place; where styles are dropped, both show."""
    return f'<span aria-hidden="true">{mark}</span><span class="tc-unseen"> {words}</span>'


def _by_case(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for number in dict.fromkeys(r.number for r in results):
        group = [r for r in results if r.number == number]
        yield group[0].case.name, group


def _devices(group: Sequence[Result]) -> str:
    failed = [DEVICES[r.device] for r in group if not r.passed]
    return f" ({', '.join(failed)})" if failed and len(failed) < len(group) else ""


def _row(name: str, group: Sequence[Result]) -> str:
    failed = next((r for r in group if not r.passed), None)
    mark = for_screen_readers(MARKS[failed is None], "failed" if failed else "passed")
    label, got, want = map(html.escape, _difference(failed) if failed else ("", "", ""))
    where = f'<th scope="row">{html.escape(name + _devices(group))}</th>'
    return f'<tr><td>{mark}</td>{where}<td><span class="tc-dim">{label}</span>{got}</td><td>{want}</td></tr>'


def _difference(failed: Result) -> tuple[str, str, str]:
    """Return the name of what differs in a failed case ("" for its result), the observed value and the wanted one."""
    if "raised" in failed.seen:
        return "", brief(failed.seen["raised"]), "no exception"
    what = failed.differs[0]
    wanted = brief(failed.wanted[what]) if what in failed.wanted else "nothing"
    if what not in failed.seen:
        label = "" if what == "result" else f"{what}: "
        if "returned" not in failed.wanted and isinstance(returned := failed.seen.get("returned"), str):
            words = "nothing" if returned.startswith(kind(None)) else returned.partition(";")[0]
            return "", brief(words), label + wanted
        return label, "missing", wanted
    got = brief(failed.seen[what])
    if what in failed.wanted:
        what, got, wanted = difference_texts(failed, what)
    got, wanted = ("nothing" if text == "None" else text for text in (got, wanted))
    return "" if what == "result" else f"{what}: ", got, wanted


def _inputs_of(report: Report, failed: Result) -> str:
    """Return the inputs of a failed case as text, and the call that a learner can debug it with."""
    call = f'<code>case("{html.escape(report.exercise)}")</code>'
    words = f"The inputs of the first case that fails. {call} calls your answer in it:"
    text = _inputs(failed.case.inputs)
    return f'<p class="tc-dim">{words}</p>{program("its inputs", text)}' if text else ""


def _inputs(inputs: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {_written_out(value)}" for name, value in inputs.items())


def _written_out(value: object) -> str:
    """Return a value as Python shows it, cut where it is long."""
    try:
        lines = repr(value).splitlines()
    except Exception:  # an input may be an object of any kind
        return f"<{type(value).__name__}>"
    cut = [line if len(line) <= INPUT_WIDTH else f"{line[:INPUT_WIDTH]}…" for line in lines[:INPUT_LINES]]
    more = ["…"] if len(lines) > INPUT_LINES else []
    return "\n".join([*cut, *more])


def _printed(report: Report, record: RunRecord) -> str:
    """Return what the answer printed in each case, folded, with the start in view; "" if it printed nothing."""
    runs = sorted(report.results, key=lambda result: result.passed)  # what failed comes first
    texts = [(run, text) for run in runs if (text := record.printed.get((run.number, run.device)))]
    if not texts:
        return ""
    start = texts[0][1].partition("\n")[0][:PRINTED_WIDTH]
    blocks = [f"{run.case.name}, {DEVICES[run.device]}:\n{text}" for run, text in texts]
    summary = f"<summary>It printed <code>{html.escape(start)}</code>…</summary>"
    return f"<details>{summary}{program('what it printed', chr(10).join(blocks))}</details>"
