"""How a report looks: a card in a notebook, plain text in a terminal."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from torchcourse.explaining import Result, brief, difference
from torchcourse.reporting import Report

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
LANES = {"cpu": "CPU", "cuda": "GPU", "simulated": "second device (simulated)"}
LONGEST_SIDE = 12

STYLE = """<style>
.tc-card{--tc-line:#8c959f;--tc-dim:#57606a;border:1px solid var(--tc-line);border-left-width:6px;border-radius:6px;
padding:.6em 1em;margin:.3em 0;max-width:56em;font-size:14px;line-height:1.45;color:inherit}
.tc-card.passed{border-left-color:#009e73}.tc-card.failed,.tc-card.error,.tc-card.forbidden,.tc-card.timeout
{border-left-color:#d55e00}.tc-card.unattempted{border-left-color:#0072b2}
.tc-card .tc-title{font-weight:700}.tc-card code{background:transparent;color:inherit;padding:0}
.tc-card table{border-collapse:collapse;margin:.5em 0 .2em;font-size:13px}
.tc-card th,.tc-card td{text-align:left!important;padding:.15em .8em .15em 0;vertical-align:top;
background:transparent!important;color:inherit;max-width:24em;white-space:normal}
.tc-card details{margin-top:.3em}.tc-card summary{cursor:pointer}.tc-card .tc-dim{opacity:.75}
.tc-card .tc-pictures{display:flex;flex-wrap:wrap;gap:1.4em;margin-top:.3em}.tc-card figure{margin:0}
.tc-card figcaption{font-size:12px;opacity:.8}
</style>"""


def show(report: Report) -> None:
    """Display a report where the caller is: as a card in a notebook, else as text."""
    if _in_notebook():
        from IPython.display import display

        display({"text/html": as_html(report), "text/plain": as_text(report)}, raw=True)
    else:
        print(as_text(report))


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
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def as_text(report: Report) -> str:
    """A report in lines of plain text."""
    lines = [f"{report.exercise}: {TITLES[report.status]}. {report.message}"]
    if report.misconception:
        lines += [f"  misconception: {report.misconception}"]
    if report.read:
        lines += [f"  read again: {report.read}"]
    lines += [
        f"  {MARKS[all(r.passed for r in group)]} {name}{_devices(group)}" for name, group in _by_case(report.results)
    ]
    return "\n".join(lines)


def _by_case(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for number in dict.fromkeys(r.number for r in results):
        group = [r for r in results if r.number == number]
        yield group[0].case.name, group


def _devices(group: Sequence[Result]) -> str:
    failed = [LANES[r.lane] for r in group if not r.passed]
    return f" ({', '.join(failed)})" if failed and len(failed) < len(group) else ""


def as_html(report: Report) -> str:
    """A report as a card; readable in light and dark themes, with words beside every colour and picture."""
    title = f'<div class="tc-title">{TITLES[report.status]} · <code>{html.escape(report.exercise)}</code></div>'
    parts = [title, f"<div>{_code(report.message)}</div>"]
    if report.misconception:
        parts.append(f'<div class="tc-dim">This is known as <code>{html.escape(report.misconception)}</code>.</div>')
    if report.read:
        parts.append(f"<div>Read again: {_section(report.read)}</div>")
    if report.results:
        parts.append(_cases(report))
    label = f"Check of {report.exercise}: {TITLES[report.status]}"
    body = "".join(parts)
    return f'{STYLE}<div class="tc-card {report.status}" role="region" aria-label="{html.escape(label)}">{body}</div>'


def _section(heading: str) -> str:
    anchor = html.escape(heading.replace(" ", "-"), quote=True)
    return f'<a href="#{anchor}">{html.escape(heading)}</a>'


def _code(text: str) -> str:
    """Escaped, with `backquoted` words as code."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 and i < len(pieces) - 1 else p for i, p in enumerate(pieces))


def _cases(report: Report) -> str:
    rows = [_row(name, group) for name, group in _by_case(report.results)]
    passed = sum(all(r.passed for r in group) for _, group in _by_case(report.results))
    head = "<tr><th></th><th>case</th><th>what came out</th><th>what was wanted</th></tr>"
    table = f"<table>{head}{''.join(rows)}</table>"
    failed = next((r for r in report.results if not r.passed), None)
    picture = _pictures(failed) if failed else ""
    opened = "" if report.passed else " open"
    return f"<details{opened}><summary>{passed} of {len(rows)} cases pass</summary>{table}</details>{picture}"


def _row(name: str, group: Sequence[Result]) -> str:
    failed = next((r for r in group if not r.passed), None)
    mark = f'<td aria-label="{"failed" if failed else "passed"}">{MARKS[failed is None]}</td>'
    where = html.escape(name + _devices(group))
    if failed is None:
        return f"<tr>{mark}<td>{where}</td><td></td><td></td></tr>"
    if "raised" in failed.seen:
        return (
            f"<tr>{mark}<td>{where}</td><td>{html.escape(brief(failed.seen['raised']))}</td><td>no exception</td></tr>"
        )
    what = failed.differs[0]
    fields = difference(failed, what)
    label = "" if what == "result" else f'<span class="tc-dim">{html.escape(what)}: </span>'
    got, want = (html.escape(text if text != "None" else "nothing") for text in (fields["got"], fields["want"]))
    return f"<tr>{mark}<td>{where}</td><td>{label}{got}</td><td>{want}</td></tr>"


def _pictures(result: Result) -> str:
    """What came out, what was wanted and where they differ, where both are tensors of one drawable shape."""
    name = next(iter(result.differs), "")
    got, want = result.seen.get(name), result.wanted.get(name)
    if not (isinstance(got, Tensor) and isinstance(want, Tensor)) or got.is_complex() or want.is_complex():
        return ""
    sides = [("came out", got), ("wanted", want)]
    drawn = [
        f"<figure>{_grid(t, _scale(want))}<figcaption>{w}, {tuple(t.shape)}</figcaption></figure>" for w, t in sides
    ]
    if got.shape == want.shape and got.numel():
        wrong = ~torch.isclose(got.double(), want.double(), 1e-3, 1e-4, equal_nan=True)
        note = f"where they differ: {int(wrong.sum())} of {wrong.numel()}"
        drawn.append(f"<figure>{_grid(wrong.float(), 1.0)}<figcaption>{note}</figcaption></figure>")
    text = f"Pictures of the case {result.case.name}"
    return f'<div class="tc-pictures" role="img" aria-label="{html.escape(text)}">{"".join(drawn)}</div>'


def _scale(tensor: Tensor) -> float:
    finite = tensor.double()[tensor.double().isfinite()]
    return max(1e-12, float(finite.abs().max())) if finite.numel() else 1.0


def _grid(tensor: Tensor, scale: float) -> str:
    """A tensor as an SVG of coloured squares: its last two dimensions, at the first index of the others."""
    flat = tensor.detach().double()
    while flat.dim() > 2:
        flat = flat[0] if len(flat) else flat.reshape(0, 0)
    flat = flat.reshape(1, -1) if flat.dim() < 2 else flat
    flat = flat[:LONGEST_SIDE, :LONGEST_SIDE]
    squares = [
        f'<rect x="{14 * j}" y="{14 * i}" width="13" height="13" fill="{_colour(v, scale)}">'
        f"<title>{v:.4g}</title></rect>"
        for i, row in enumerate(flat.tolist())
        for j, v in enumerate(row)
    ]
    height, width = 14 * flat.shape[0] or 1, 14 * flat.shape[1] or 1
    return f'<svg width="{width}" height="{height}" aria-hidden="true">{"".join(squares)}</svg>'


def _colour(value: float, scale: float) -> str:
    """Orange above zero, blue below, grey where not a finite number."""
    if value != value or abs(value) == float("inf"):
        return "#444444"
    share = max(-1.0, min(1.0, value / scale))
    end = (213, 94, 0) if share > 0 else (0, 114, 178)
    mixed = [round(245 + (c - 245) * abs(share)) for c in end]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
