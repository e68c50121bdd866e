"""A class on a real JupyterHub: an instructor and three learners with accounts of the system, from release to feedback.

The hub, its proxy and all servers run as docs/jupyterhub.md says, with the files in deploy/jupyterhub/.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autograde.source import paths
from autograde.source.script import answers_as_text
from tests.support.hub import Account, Hub, Visit, running_hub
from tests.support.results import grade_rows
from tests.support.working_copies import WRONG

pytestmark = [pytest.mark.hub, pytest.mark.sandbox]

LESSON = "01_tensors"
NOTEBOOK = f"{LESSON}/{LESSON}.ipynb"
FORMGRADER = f"formgrader/api/assignment/{LESSON}"
RIGHT = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py")["row_softmax"]
ANSWERS = {"ada": RIGHT, "ben": WRONG, "cleo": ""}
FORGE = """
cd "$1/torchcourse/inbound"
entry="$2+01_tensors+2030-01-01 00:00:00.000000 UTC+forged"
mkdir "$entry"
printf "2030-01-01 00:00:00.000000 UTC" >"$entry/timestamp.txt"
ln -s "$3" "$entry/01_tensors.ipynb"
"""
"""Make an entry in the inbox of an exchange, in somebody's name, whose notebook is a link."""


@dataclass
class Term:
    """What came of the term: for each learner, by their first name."""

    hub: Hub
    visits: dict[str, Visit] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    feedback: dict[str, str] = field(default_factory=dict)
    grades: dict[str, dict[str, str]] = field(default_factory=dict)

    def account(self, name: str) -> Account:
        return next(one for one in self.hub.learners if one.name.endswith(f"-{name}"))


def three_free_ports() -> int:
    """Return the first of three neighbouring ports that are free."""
    for first in range(18000, 19000, 3):
        with socket.socket() as one, socket.socket() as two, socket.socket() as three:
            try:
                for offset, probe in enumerate((one, two, three)):
                    probe.bind(("127.0.0.1", first + offset))
            except OSError:
                continue
            return first
    raise OSError("no port is free")


@pytest.fixture(scope="module")
def term() -> Iterator[Term]:
    """Release, fetch, work, submit, collect, grade, give feedback; the notes of all that."""
    with running_hub(three_free_ports(), *ANSWERS) as hub:
        term = Term(hub)
        people = {name: term.account(name) for name in ANSWERS} | {"prof": hub.instructor}
        with ThreadPoolExecutor() as pool:
            term.visits = dict(zip(people, pool.map(lambda one: Visit(hub, one), people.values()), strict=True))
        prof = term.visits["prof"]
        prof.press(f"{FORMGRADER}/release")
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: work(term, name), ANSWERS))
        attack = (
            "/bin/sh",
            "-c",
            FORGE,
            "sh",
            hub.exchange,
            term.account("ben").name,
            term.account("cleo").home / NOTEBOOK,
        )
        assert term.account("cleo").run(*attack).returncode == 0
        prof.press(f"{FORMGRADER}/collect")
        hub.instruct("torchcourse", "grade", LESSON, "--submitted", "submitted", "--out", ".", cwd=hub.room)
        for row in grade_rows(hub.room / "grades.csv"):
            if row["exercise"] == "row_softmax":
                term.grades[row["student"].rpartition("-")[2]] = row
        prof.press(f"{FORMGRADER}/generate_feedback")
        prof.press(f"{FORMGRADER}/release_feedback")
        for name in ANSWERS:
            read_feedback(term, name)
        yield term


def work(term: Term, name: str) -> None:
    """Fetch the lesson, write an answer, check it in a kernel on the hub, save, submit."""
    visit, source = term.visits[name], ANSWERS[name]
    course = {"course_id": "torchcourse", "assignment_id": LESSON}
    visit.press("assignments/fetch", **course)
    notebook = visit.get(f"api/contents/{NOTEBOOK}")["content"]
    cells = {cell["metadata"].get("nbgrader", {}).get("grade_id", ""): cell for cell in notebook["cells"]}
    cells["row_softmax"]["source"] = source or cells["row_softmax"]["source"]
    visit.put(f"api/contents/{NOTEBOOK}", {"type": "notebook", "format": "json", "content": notebook})
    first = next(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    term.cards[name] = "".join(visit.run(NOTEBOOK, first, cells["row_softmax"]["source"], 'check("row_softmax")'))
    visit.press("assignments/submit", **course)
    done = term.account(name).run("torchcourse", "status", path=str(term.hub.env / "bin"))
    term.status[name] = next(line for line in done.stdout.splitlines() if line.startswith(LESSON))


def read_feedback(term: Term, name: str) -> None:
    visit = term.visits[name]
    visit.press("assignments/fetch_feedback", course_id="torchcourse", assignment_id=LESSON)
    (time,) = visit.get(f"api/contents/{LESSON}/feedback")["content"]
    term.feedback[name] = visit.get(f"api/contents/{time['path']}/{LESSON}.html")["content"]


def test_each_learner_sees_their_own_card_and_progress(term: Term) -> None:
    kinds = {name: card.partition('class="tc-card ')[2].partition('"')[0] for name, card in term.cards.items()}
    assert kinds == {"ada": "passed", "ben": "failed", "cleo": "unattempted"}
    counts = {name: line.split()[1:3] for name, line in term.status.items()}
    assert counts == {"ada": ["1", "0"], "ben": ["0", "1"], "cleo": ["0", "0"]}


def test_what_was_submitted_is_graded_and_comes_back_as_feedback(term: Term) -> None:
    outcomes = {name: (row["status"], row["misconception"]) for name, row in term.grades.items()}
    assert outcomes == {"ada": ("passed", ""), "ben": ("failed", "wrong-dim"), "cleo": ("unattempted", "")}
    assert {name for name, page in term.feedback.items() if "wrong-dim" in page} == {"ben"}


def test_nothing_that_is_not_for_a_learner_can_be_read_by_one(term: Term) -> None:
    hub, ben = term.hub, term.account("ben")
    (entry,) = (hub.exchange / "torchcourse" / "inbound").glob(f"{ben.name}+*UTC+[!f]*")
    assert entry.is_dir()
    private = [
        hub.checkout / "solutions" / f"{LESSON}.py", hub.checkout / "autograde" / "settings.py",
        hub.room / "source" / NOTEBOOK, hub.room / "gradebook.db", hub.room / "grades.csv", hub.room,
        hub.room / "feedback" / ben.name / NOTEBOOK.replace("ipynb", "html"),
        ben.home, ben.home / NOTEBOOK, ben.home / ".torchcourse" / "progress.jsonl",
        hub.exchange / "torchcourse" / "inbound", hub.exchange / "torchcourse" / "feedback",
        hub.folder / "hub" / "jupyterhub.sqlite", hub.folder / "hub" / "jupyterhub_cookie_secret",
    ]  # fmt: skip
    assert [path for path in private if not path.exists()] == []
    ada = term.account("ada")
    reads = {path: ada.run("ls" if path.is_dir() else "cat", path) for path in private}
    assert [path for path, done in reads.items() if done.returncode == 0] == []
    assert {done.stderr.strip().rpartition(": ")[2] for done in reads.values()} == {"Permission denied"}
    assert ada.run("ls", ada.home).returncode == 0
    imported = ada.run(hub.env / "bin" / "python", "-c", "import autograde")
    assert "No module named 'autograde'" in imported.stderr


def test_a_learner_changes_nothing_of_others_in_the_exchange(term: Term) -> None:
    course, ada = term.hub.exchange / "torchcourse", term.account("ada")
    outbound = course / "outbound" / LESSON
    for command in (("mv", course, term.hub.exchange / "mine"), ("rm", outbound / f"{LESSON}.ipynb"),
                    ("touch", outbound / "more"), ("mkdir", course / "more")):  # fmt: skip
        assert ada.run(*command).returncode != 0, command


def test_servers_of_others_are_closed_and_a_learners_has_no_formgrader(term: Term) -> None:
    ada, others = term.visits["ada"], [term.visits[name].name for name in ("ben", "prof")]
    assert [ada.refused("api/contents", of=name) for name in others] == [403, 403]
    assert ada.refused("formgrader/manage_assignments") == 404
    assert "formgrader" in term.visits["prof"].get("formgrader/manage_assignments")


def test_a_link_to_the_answers_does_not_come_back(term: Term) -> None:
    hub, cleo = term.hub, term.account("cleo")
    source = hub.room / "source" / NOTEBOOK
    assert "keepdim=True" in source.read_text()
    assert cleo.run("/bin/sh", "-c", FORGE, "sh", hub.exchange, cleo.name, source).returncode == 0
    term.visits["prof"].press(f"{FORMGRADER}/collect")
    taken = [path for path in Path(hub.room / "submitted" / cleo.name).rglob("*") if path.is_file()]
    assert [path for path in taken if path.read_bytes() == source.read_bytes()] == []
