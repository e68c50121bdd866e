"""How a report looks: a card in a notebook, plain text in a terminal."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote

from torchcourse import hints
from torchcourse.beside import Beside
from torchcourse.drawing import pictures
from torchcourse.explaining import Result, brief, difference
from torchcourse.references import Reference
from torchcourse.reporting import Report
from torchcourse.working_copy import shell

__all__ = ["as_html", "as_text", "say", "show"]

TITLES = {
    "passed": "Right",
    "failed": "Not right yet",
    "error": "An exception came up",
    "forbidden": "Not allowed here",
    "unattempted": "Not attempted",
    "timeout": "Out of time",
    "interrupted": "Interrupted",
    "unknown": "No such exercise",
}
MARKS = {True: "✓", False: "✗"}
LANES = {"cpu": "CPU", "cuda": "GPU", "simulated": "simulated second device"}
IN_FRAGMENTS = "?/:@!$&'()*+,;="
"""What a link to a heading leaves as it is, beside letters and digits: as JupyterLab and nbconvert do."""

# The colours are JupyterLab's own where it has told them, so that the card follows the theme; elsewhere the page's.
# The last rule hides the place of a hint button that belonged to a kernel of yesterday.
STYLE = """<style>
.tc-card{--tc-line:var(--jp-border-color1,#8c959f);border:1px solid var(--tc-line);border-left-width:6px;
border-radius:6px;padding:.6em 1em;margin:.3em 0;max-width:60em;font-size:14px;line-height:1.45;
color:var(--jp-content-font-color1,inherit)}
.tc-card.passed{border-left-color:#009e73}.tc-card.failed,.tc-card.error,.tc-card.forbidden,.tc-card.timeout
{border-left-color:#d55e00}.tc-card.unattempted{border-left-color:#0072b2}
.tc-card .tc-title{font-weight:700}.tc-card code{background:transparent;color:inherit;padding:0}
.tc-card table{border-collapse:collapse;margin:.5em 0 .2em;font-size:13px}
.tc-card th,.tc-card td{text-align:left!important;padding:.15em .8em .15em 0;vertical-align:top;
background:transparent!important;color:inherit;max-width:24em;white-space:normal}
.tc-card tbody th{font-weight:400}.tc-card ol{margin:.3em 0;padding-left:1.6em}.tc-card p{margin:.4em 0}
.tc-card details{margin-top:.3em}.tc-card summary{cursor:pointer}.tc-card .tc-dim{opacity:.8}
.tc-card .tc-pictures,.tc-card .tc-sides{display:flex;flex-wrap:wrap;gap:1.4em;margin-top:.3em}
.tc-card figure{margin:0;min-width:0}.tc-card figcaption{font-size:12px;opacity:.85}
.tc-card .tc-sides figure{flex:1 1 22em}.tc-card pre{overflow-x:auto;margin:.2em 0;padding:.5em!important;
border:1px solid var(--tc-line)!important;border-radius:4px;background:transparent;color:inherit}
.tc-card pre,.tc-card pre code{font-size:12.5px;line-height:1.4;white-space:pre!important;word-break:normal!important}
.tc-card :is(a,summary,pre):focus-visible{outline:2px solid var(--jp-brand-color1,#0072b2);outline-offset:2px}
.tc-card .tc-spoken{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.jp-OutputArea-child:has(.tc-card) + .jp-OutputArea-child div.lm-Panel.jupyter-widgets:not(:has(*)){display:none}
</style>"""


def show(report: Report, more: Beside | None = None) -> None:
    """Display a report where the caller is: as a card in a notebook, with a button for the next hint where hints are
    offered and widgets are there; else as text."""
    more = more or Beside()
    if not _in_notebook():
        print(as_text(report, more))
        return
    from IPython.display import display

    handle = display(_bundle(report, more), raw=True, display_id=True)
    exercise = more.exercise
    if exercise is None or len(more.hints) == len(exercise.hints):
        return

    def redraw() -> None:
        handle.update(_bundle(report, replace(more, hints=hints.asked(exercise), fresh=True)), raw=True)

    if button := hints.button(exercise, redraw):
        display(button, raw=True)


def _bundle(report: Report, more: Beside) -> dict[str, str]:
    return {"text/html": as_html(report, more), "text/plain": as_text(report, more)}


def say(text: str) -> None:
    """Display a few sentences."""
    if _in_notebook():
        from IPython.display import display

        lines = "<br>".join(map(_code, text.splitlines()))
        display({"text/html": f'{STYLE}<div class="tc-card unattempted" role="note">{lines}</div>', "text/plain": text},
                raw=True)  # fmt: skip
    else:
        print(text)


def _in_notebook() -> bool:
    running = shell()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def as_text(report: Report, more: Beside | None = None) -> str:
    """A report in lines of plain text."""
    lines = [f"{report.exercise}: {TITLES[report.status]}. {report.message}"]
    if report.misconception:
        lines += [f"  misconception: {report.misconception}"]
    if report.read:
        lines += [f"  read again: {report.read}"]
    if more and more.note:
        lines += [f"  {more.note}"]
    lines += [
        f"  {MARKS[all(r.passed for r in group)]} {name}{_devices(group)}" for name, group in _by_case(report.results)
    ]
    if more:
        lines += [f"  hint {number}: {text}" for number, text in enumerate(more.hints, 1)]
    return "\n".join(lines)


def _by_case(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for number in dict.fromkeys(r.number for r in results):
        group = [r for r in results if r.number == number]
        yield group[0].case.name, group


def _devices(group: Sequence[Result]) -> str:
    failed = [LANES[r.lane] for r in group if not r.passed]
    return f" ({', '.join(failed)})" if failed and len(failed) < len(group) else ""


def as_html(report: Report, more: Beside | None = None) -> str:
    """A report as a card: readable in light and dark themes, with words beside every colour and picture, and with
    nothing in it that could run."""
    more = more or Beside()
    title = f'<div class="tc-title">{TITLES[report.status]} · <code>{html.escape(report.exercise)}</code></div>'
    parts = [title, f"<div>{_code(report.message)}</div>"]
    if report.misconception:
        parts.append(f'<div class="tc-dim">This is known as <code>{html.escape(report.misconception)}</code>.</div>')
    if report.read:
        parts.append(f"<div>Read again: {_section(report.read)}</div>")
    if more.note:
        parts.append(f"<p>{_code(more.note)}</p>")
    if report.results:
        parts.append(_cases(report))
    parts += [_hints(more), _answers(more.reference, more.own) if more.reference else ""]
    label = f"Check of {report.exercise}: {TITLES[report.status]}"
    body = "".join(parts)
    return f'{STYLE}<div class="tc-card {report.status}" role="region" aria-label="{html.escape(label)}">{body}</div>'


def _section(heading: str) -> str:
    """A link to a heading of the notebook, as JupyterLab and nbconvert name its place."""
    anchor = html.escape(quote(heading.replace(" ", "-"), safe=IN_FRAGMENTS))
    return f'<a href="#{anchor}">{html.escape(heading)}</a>'


def _code(text: str) -> str:
    """Escaped, with `backquoted` words as code."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 and i < len(pieces) - 1 else p for i, p in enumerate(pieces))


def _spoken(mark: str, words: str) -> str:
    """A mark to look at, and words in its place for who listens."""
    return f'<span aria-hidden="true">{mark}</span><span class="tc-spoken">{words}</span>'


def _cases(report: Report) -> str:
    rows = [_row(name, group) for name, group in _by_case(report.results)]
    passed = sum(all(r.passed for r in group) for _, group in _by_case(report.results))
    columns = (_spoken("", "outcome"), "case", "what came out", "what was wanted")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    failed = next((r for r in report.results if not r.passed), None)
    opened = "" if report.passed else " open"
    summary = f"<summary>{passed} of {len(rows)} cases pass</summary>"
    return f"<details{opened}>{summary}{table}</details>{pictures(failed) if failed else ''}"


def _row(name: str, group: Sequence[Result]) -> str:
    failed = next((r for r in group if not r.passed), None)
    mark = _spoken(MARKS[failed is None], "failed" if failed else "passed")
    got, want = _difference(failed) if failed else ("", "")
    where = f'<th scope="row">{html.escape(name + _devices(group))}</th>'
    return f"<tr><td>{mark}</td>{where}<td>{got}</td><td>{want}</td></tr>"


def _difference(failed: Result) -> tuple[str, str]:
    """What came out of a failed case, and what was wanted."""
    if "raised" in failed.seen:
        return html.escape(brief(failed.seen["raised"])), "no exception"
    what = failed.differs[0]
    fields = difference(failed, what)
    label = "" if what == "result" else f'<span class="tc-dim">{html.escape(what)}: </span>'
    got, want = (html.escape(text if text != "None" else "nothing") for text in (fields["got"], fields["want"]))
    return label + got, want


def _hints(more: Beside) -> str:
    """The hints that were asked for, folded unless the last one is new; and how to get another."""
    if more.exercise is None:
        return ""
    count, used = len(more.exercise.hints), len(more.hints)
    call = f'<code>hint("{html.escape(more.exercise.name)}")</code>'
    if not used:
        return f'<p class="tc-dim">Stuck? {call} gives a hint, and each further call a little more.</p>'
    items = [f"<li>{_code(text)}</li>" for text in more.hints]
    if more.fresh:  # inserted with this role, it is read out at once
        items[-1] = f'<li role="alert">{_code(more.hints[-1])}</li>'
    opened = " open" if more.fresh else ""
    return f"<details{opened}><summary>Hints so far: {used} of {count}</summary><ol>{''.join(items)}</ol></details>"


def _answers(reference: Reference, own: str) -> str:
    """The reference, why it is as it is, and the learner's own answer beside it; folded."""
    sides = [("yours", own), ("the reference", reference.source)]
    figures = [
        f'<figure><figcaption>{words}</figcaption><pre tabindex="0" aria-label="{words}"><code>{html.escape(text)}'
        "</code></pre></figure>"
        for words, text in sides
        if text
    ]
    why = f"<p>{_code(reference.why)}</p>" if reference.why else ""
    summary = f"<summary>{'Your answer beside the reference' if own else 'The reference'}, and why</summary>"
    return f'<details class="tc-answers">{summary}{why}<div class="tc-sides">{"".join(figures)}</div></details>'
