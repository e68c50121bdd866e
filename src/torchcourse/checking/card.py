"""Show a report as a card in a notebook, or as plain text in a terminal."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from torchcourse.checking import hints
from torchcourse.checking.answer_cell import CHANGED
from torchcourse.checking.card_buttons import card_buttons
from torchcourse.checking.card_cases import cases_as_html, cases_as_text, program
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.hints import asked_for_reference
from torchcourse.checking.references import Reference
from torchcourse.checking.report import TITLES, Report
from torchcourse.checking.run_record import breakpoint_notice
from torchcourse.checking.save_watch import after_each_save
from torchcourse.model.exercise import InterviewQuestion
from torchcourse.workspace import session
from torchcourse.workspace.standing import Standing

__all__ = ["Shown", "as_html", "as_text", "bundle", "say", "show"]

ERROR = "error:"
"""What compilers write before an error."""
UNQUOTED = "?/:@!$&'()*+,;="
"""Characters besides letters and digits that a link to a heading keeps, as in JupyterLab and nbconvert."""


@dataclass(frozen=True)
class Shown:
    """What a card shows.

    Attributes:
        report: the outcome of a check.
        details: what to show besides.
        reread: returns what to show after the notebook was saved; None if that changes nothing.
    """

    report: Report
    details: CardDetails = field(default_factory=CardDetails)
    reread: Callable[[], Shown] | None = None


# In JupyterLab the colours are those of its theme; elsewhere those of the page.
# A warning that the cell has changed sits on the upper edge, where it takes no room.
# The last rules hide the output of a hint button whose kernel is gone, and keep the browser from scrolling a new card
# out of view to leave the cell below it in its place.
STYLE = """<style>
.tc-card{--tc-line:var(--jp-border-color1,#8c959f);border:1px solid var(--tc-line);border-left-width:6px;
border-radius:6px;position:relative;padding:.4em 1em;margin:.3em 0;max-width:60em;font-size:14px;line-height:1.45;
color:var(--jp-content-font-color1,inherit)}
.tc-card.passed{border-left-color:#009e73}.tc-card.failed,.tc-card.error,.tc-card.forbidden,.tc-card.timeout
{border-left-color:#d55e00}.tc-card.unattempted{border-left-color:#0072b2}
.tc-card .tc-changed{position:absolute;right:.8em;bottom:100%;transform:translateY(50%);margin:0;padding:0 .5em;
border:1px solid var(--tc-line);border-radius:6px;background:var(--jp-layout-color0,Canvas);font-size:12px}
.tc-card:has(.tc-changed:not([hidden])){margin-top:1em}.tc-card .tc-warning{margin:0;font-weight:700}
.tc-card .tc-title{font-weight:700}
.tc-card .tc-first{font-size:13px}
.tc-card .tc-values{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:2;overflow:hidden}
.tc-card .tc-short{-webkit-line-clamp:1}
.tc-card .tc-source{display:inline-block;max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;
vertical-align:bottom}
.tc-card code{background:transparent;color:inherit;padding:0}
.tc-card table{border-collapse:collapse;margin:.5em 0 .2em;font-size:13px}
.tc-card th,.tc-card td{text-align:left!important;padding:.15em .8em .15em 0;vertical-align:top;
background:transparent!important;color:inherit;max-width:24em;white-space:normal}
.tc-card tbody th{font-weight:400}.tc-card ol{margin:.3em 0;padding-left:1.6em}.tc-card p{margin:.4em 0}
.tc-card details{margin-top:.3em}.tc-card summary{cursor:pointer}.tc-card .tc-dim{opacity:.8}
.tc-card .tc-pictures,.tc-card .tc-sides{display:flex;flex-wrap:wrap;gap:1.4em;margin-top:.3em}
.tc-card figure{margin:0;min-width:0}.tc-card figcaption{font-size:12px;opacity:.85}
.tc-card .tc-sides figure{flex:1 1 auto;max-width:100%}
.tc-card pre{overflow-x:auto;margin:.2em 0;padding:.5em!important;
border:1px solid var(--tc-line)!important;border-radius:4px;background:transparent;color:inherit}
.tc-card pre,.tc-card pre code{font-size:12.5px;line-height:1.4;white-space:pre!important;word-break:normal!important}
.tc-card :is(a,summary,pre):focus-visible{outline:2px solid var(--jp-brand-color1,#0072b2);outline-offset:2px}
.tc-card .tc-unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.jp-OutputArea-child:has(.tc-card) + .jp-OutputArea-child div.lm-Panel.jupyter-widgets:not(:has(*)){display:none}
.jp-WindowedPanel-outer{overflow-anchor:none}
</style>"""


def show(shown: Shown, again: Callable[[], Shown] | None = None) -> None:
    """Display a report: in a notebook as a card, with buttons below it if widgets work; else as text.

    Args:
        shown: the report, with its details.
        again: checks the answer once more, for a button.
    """
    if not session.in_notebook():
        print(as_text(shown.report, shown.details))
        return
    from IPython.display import display

    handle = display(bundle(shown), raw=True, display_id=True)
    exercise = shown.details.exercise
    if exercise is None:
        return

    def update(new: Shown) -> None:
        nonlocal shown
        shown = new
        handle.update(bundle(shown), raw=True)

    def with_hints() -> None:
        asked, answer = hints.asked(exercise), asked_for_reference(exercise)
        details = replace(shown.details, hints=asked, new_hint=True, shows_reference=answer)
        update(replace(shown, details=details))

    def repeat() -> bool:
        update(again() if again else shown)
        return shown.details.offers_hints

    def renew() -> None:
        new = shown.reread() if shown.reread else shown
        if (new.report.status, new.details.warning) != (shown.report.status, shown.details.warning):
            update(new)

    more_hints = with_hints if shown.details.offers_hints else None
    has_reference = shown.details.reference is not None
    if row := card_buttons(exercise, has_reference, more_hints=more_hints, again=again and repeat):
        display(row, raw=True)
    after_each_save(exercise.name, renew)


def bundle(shown: Shown) -> dict[str, str]:
    """Return a card by MIME type: as HTML, with the script that watches its cell, and as text."""
    script = shown.details.script if shown.details.warning in ("", CHANGED) else ""
    card = as_html(shown.report, shown.details) + script
    return {"text/html": card, "text/plain": as_text(shown.report, shown.details)}


def say(text: str, source: str = "") -> None:
    """Display a few sentences, with `backquoted` words as code, and below them a program."""
    plain = f"{text}\n\n{source}" if source else text
    if not session.in_notebook():
        print(plain)
        return
    from IPython.display import display

    lines = "<br>".join(map(_code, text.splitlines()))
    answer = program("the answer", source) if source else ""
    card = f'{STYLE}<div class="tc-card unattempted" role="note">{lines}{answer}</div>'
    display({"text/html": card, "text/plain": plain}, raw=True)


def as_text(report: Report, details: CardDetails | None = None) -> str:
    """Return a report as lines of plain text."""
    details = details or CardDetails()
    lines = [f"{report.exercise}: {TITLES[report.status]}. {report.message}"]
    if details.warning:
        lines.insert(0, f"{report.exercise}: {details.warning}")
    if report.misconception:
        lines += [f"  misconception: {report.misconception}"]
    if report.section:
        lines += [f"  read again: {report.section}"]
    lines += cases_as_text(report, details.record)
    lines += [f"  hint {number}: {text}" for number, text in enumerate(details.hints, 1)]
    lines += [f"  {' '.join(call)}." for call in _next_hint(details)]
    if details.interview:
        asked = details.interview
        lines += [f"  asked in an interview: {asked.question}", f"  {asked.answer} (Taught in {asked.taught}.)"]
    if details.record.met_breakpoint:
        lines += [f"  {breakpoint_notice(report.exercise)}"]
    if details.shows_reference and details.reference and not report.passed:
        lines += ["  the answer:", *(f"    {line}" for line in details.reference.source.splitlines())]
    if details.standing and report.passed:
        lines += [f"  {_done_so_far(details.standing)}{_next(details.standing)[0]}"]
    return "\n".join(lines)


def as_html(report: Report, details: CardDetails | None = None) -> str:
    """Return a report as a card of HTML that cannot run code.

    It is readable in light and dark themes, and has words for every colour and picture.
    """
    details = details or CardDetails()
    kind = "tc-changed" if details.warning == CHANGED else "tc-warning"
    parts = [f'<p class="{kind}" role="status">{_code(details.warning)}</p>'] if details.warning else []
    title = f'<span class="tc-title">{TITLES[report.status]} · <code>{html.escape(report.exercise)}</code></span>'
    parts.append(f"<div>{title}{_misconception(report)}</div>")
    message, _, output = report.message.partition("\n")
    sentence, _, also = message.partition(" Also: ")
    parts.append(f"<div>{_code(sentence)}</div>")
    if output:  # what another program wrote, such as a compiler
        parts.append(_output(output))
    first, last = f"<p>Also: {_code(also)}</p>" if also else "", _stuck(details)
    parts.append(cases_as_html(report, details.record, sentence, first, last) or first + last)
    parts.append(_hints(details))
    if details.reference and details.shows_reference:
        parts.append(_answers(details.reference, details.answer, opened=details.new_hint))
    if details.record.met_breakpoint:
        parts.append(f'<p class="tc-dim">{_code(breakpoint_notice(report.exercise))}</p>')
    parts += [_interview_answer(details.interview)] if details.interview else []
    parts += [_what_next(details.standing)] if details.standing and report.passed else []
    label = f"Check of {report.exercise}: {TITLES[report.status]}"
    body = "".join(parts)
    return f'{STYLE}<div class="tc-card {report.status}" role="region" aria-label="{html.escape(label)}">{body}</div>'


def _output(text: str) -> str:
    """Return what another program wrote: its first line about an error in view, all of it folded."""
    lines = text.splitlines()
    first = next((line for line in lines if ERROR in line), lines[0])
    shown = f'<div class="tc-first"><code>{html.escape(first.strip())}</code></div>'
    if len(lines) == 1:
        return shown
    summary = f"<summary>All {len(lines)} lines that it wrote</summary>"
    return f"{shown}<details>{summary}{program('what it wrote', text)}</details>"


def _misconception(report: Report) -> str:
    """Return the names of the mistakes and the section to read again, to follow the title on its line."""
    named = f"The mistake looks like <code>{html.escape(report.misconception)}</code>." if report.misconception else ""
    again = f" Read again: {_section(report.section)}" if report.section else ""
    return f' · <span class="tc-dim">{named}</span>{again}' if named or again else ""


def _done_so_far(standing: Standing) -> str:
    """Return how much of the lesson is done, as a sentence; "" if that is unknown."""
    if standing.passed is None:
        return ""
    return f"Done in this lesson: {standing.passed} of {len(standing.lesson.exercises)}. "


def _next(standing: Standing) -> tuple[str, str]:
    """Return what comes next, as a sentence and as HTML with a link."""
    if standing.exercise:
        return f"Next: {standing.exercise}.", f"Next: {_section(f'Exercise: {standing.exercise}', standing.exercise)}"
    if standing.next_lesson:
        title, file = standing.next_lesson.title, quote(standing.next_lesson.name)
        return f"Next lesson: {title}.", f'Next lesson: <a href="{file}.ipynb">{html.escape(title)}</a>'
    return "", ""


def _what_next(standing: Standing) -> str:
    words = html.escape(_done_so_far(standing)) + _next(standing)[1]
    return f"<p>{words}</p>" if words else ""


def _section(heading: str, words: str = "") -> str:
    """Return a link to a heading of the notebook, with the anchor that JupyterLab and nbconvert give it."""
    anchor = html.escape(quote(heading.replace(" ", "-"), safe=UNQUOTED))
    return f'<a href="#{anchor}">{html.escape(words or heading)}</a>'


def _code(text: str) -> str:
    """Escape a text, with `backquoted` words as code."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 and i < len(pieces) - 1 else p for i, p in enumerate(pieces))


def _stuck(details: CardDetails) -> str:
    """Return how to get the next hint or the answer, how to start over, and what comes next."""
    if details.exercise is None or not details.offers_hints:
        return ""
    name = details.exercise.name
    calls = [*_next_hint(details), (f"torchcourse reset {details.lesson} {name}", "starts over")]
    said = "; ".join(f"<code>{html.escape(call, quote=False)}</code> {gives}" for call, gives in calls)
    onward = f" {words}" if details.standing and (words := _next(details.standing)[1]) else ""
    return f'<p class="tc-dim">{"" if details.hints else "Stuck? "}{said}.{onward}</p>'


def _next_hint(details: CardDetails) -> list[tuple[str, str]]:
    """Return the call that gives the next hint or the answer, and what it does; nothing if all has been shown."""
    if details.exercise is None or not details.offers_hints:
        return []
    left = len(details.hints) < len(details.exercise.hints)
    if not left and (details.reference is None or details.shows_reference):
        return []
    gives = "gives a hint" if not details.hints else "gives the next hint" if left else "shows the answer"
    return [(f'hint("{details.exercise.name}")', gives)]


def _hints(details: CardDetails) -> str:
    """Return the hints so far, folded unless the last one is new."""
    if details.exercise is None or not details.hints:
        return ""
    count, used = len(details.exercise.hints), len(details.hints)
    items = [f"<li>{_code(text)}</li>" for text in details.hints]
    if details.new_hint:  # a screen reader reads out what is inserted with this role
        items[-1] = f'<li role="alert">{_code(details.hints[-1])}</li>'
    opened = " open" if details.new_hint and not details.shows_reference else ""
    return f"<details{opened}><summary>Hints so far: {used} of {count}</summary><ol>{''.join(items)}</ol></details>"


def _answers(reference: Reference, answer: str, opened: bool = False) -> str:
    """Return the reference, its explanation, and the learner's own answer next to it, folded unless `opened`."""
    sides = [("yours", answer), ("the reference", reference.source)]
    figures = [
        f"<figure><figcaption>{words}</figcaption>{program(words, text)}</figure>" for words, text in sides if text
    ]
    why = f"<p>{_code(reference.why)}</p>" if reference.why else ""
    summary = f"<summary>{'Your answer beside the reference' if answer else 'The reference'}, and why</summary>"
    sides_by_side = f'<div class="tc-sides">{"".join(figures)}</div>'
    return f'<details class="tc-answers"{" open" if opened else ""}>{summary}{why}{sides_by_side}</details>'


def _interview_answer(interview: InterviewQuestion) -> str:
    """Return the question behind an exercise; its answer, and where it was taught, unfold."""
    link = f'<a href="{quote(interview.taught)}.ipynb">{html.escape(interview.taught)}</a>'
    summary = f"<summary>Asked in an interview: {_code(interview.question)}</summary>"
    return f'<details class="tc-asked">{summary}<p>{_code(interview.answer)}</p><p>Taught in {link}.</p></details>'
