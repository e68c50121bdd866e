"""The feedback page and the autograded notebook: what a learner wrote is text in them, whatever it holds."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from autograde.autograded import autograded
from autograde.feedback import feedback
from autograde.submission import Submission, SubmittedCell, release
from autograde.verdict import Verdict, without_examination

LESSON = "01_tensors"
EXERCISES = release(LESSON).exercises
HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></details></section><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "'><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% for x in y %}",
    "<a href='javascript:alert(1)'>x</a>",
    "<!-- --><style>*{display:none}</style>",
    "&lt;script&gt;",
    "\u202e\x1b[31m\x00",
]
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "section", "span", "code", "details",
        "summary", "pre"}  # fmt: skip


class Seen(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile(text: str) -> tuple[Submission, list[Verdict]]:
    cells = tuple(SubmittedCell("code", text, name) for name in EXERCISES)
    verdicts = [Verdict(text, LESSON, name, 0, 1, "failed", text, text, text) for name in EXERCISES]
    return Submission(text, LESSON, cells, reason=text), verdicts


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_holds_only_its_own_tags_and_shows_the_rest_as_text(text: str) -> None:
    page = feedback(*hostile(text))
    seen = Seen(page)
    assert seen.tags <= TAGS
    assert seen.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class"}
    assert page.count("<section") == len(EXERCISES)
    assert "49" not in seen.text
    if text.isprintable():
        assert text in seen.text


@pytest.mark.parametrize("text", HOSTILE)
def test_the_cards_of_an_autograded_notebook_hold_only_their_own_tags(text: str) -> None:
    notebook = json.loads(autograded(*hostile(text)))
    outputs: list[Any] = [o for cell in notebook["cells"] for o in cell.get("outputs", [])]
    pages = ["".join(o["data"]["text/html"]) for o in outputs if "text/html" in o.get("data", {})]
    assert len(pages) == len(EXERCISES)
    assert all(Seen(page).tags == {"p", "b"} and not Seen(page).attributes for page in pages)


def test_a_page_may_load_and_run_nothing() -> None:
    page = feedback(*hostile("x"))
    assert "default-src 'none'" in page
    assert not {"script", "link", "img", "iframe", "a"} & Seen(page).tags


def test_the_reason_that_a_file_could_not_be_read_for_is_one_plain_line() -> None:
    broken = Submission("ann", LESSON, problem="missing", reason="it holds a\nb\x1b[2J\u202e.ipynb")
    verdicts = [without_examination(broken, name) for name in EXERCISES]
    assert all(v is not None and v.message == "it holds a b [2J .ipynb" for v in verdicts)
    page = feedback(broken, [v for v in verdicts if v])
    assert "\x1b" not in page
    assert page.count("it holds") == 1
