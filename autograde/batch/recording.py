"""Write the results of submissions: journal, autograded notebook, feedback page, gradebook, and grades.csv."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autograde.batch.journal import Entry, Journal
from autograde.files import digest, holds, write_atomically
from autograde.judge.lesson_grader import Graded
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict
from autograde.results.autograded_notebook import autograded
from autograde.results.feedback import feedback
from autograde.results.gradebook import Writer
from autograde.results.grades_table import write_table
from torchcourse.model.catalogue import LESSONS

__all__ = ["Recorder", "Result"]


@dataclass(frozen=True)
class Result:
    """A graded submission, its key, and its journal entry if an earlier run graded it."""

    graded: Graded
    key: str
    earlier: Entry | None = None


@dataclass(frozen=True)
class Recorder:
    """Writes everything that grading leaves below `out`, and the gradebook."""

    out: Path
    journal: Journal
    gradebook: Writer

    def record(self, result: Result) -> Graded:
        """Write the results of a submission; return it without its cells, with the verdicts as they were written.

        The journal is written first, with digests of the other files. So a file that a killed run did not write is
        found missing by the next run, which writes it without grading again.
        """
        submission, entry = result.graded.submission, result.earlier
        student, lesson = submission.student, submission.lesson
        if entry is None:
            good = self._last_good(result.graded)
            entry = Entry(result.key, [_with_last_score(v, submission, good) for v in result.graded.verdicts], good, {})
        places = {
            "autograded": self.out / "autograded" / student / lesson / f"{lesson}.ipynb",
            "feedback": self.out / "feedback" / student / f"{lesson}.html",
        }
        comments = self.gradebook.comments(student, lesson)
        penalty = self.gradebook.penalty(student, lesson)
        by_hand = [*([comments] if comments else ()), *([penalty] if penalty else ())]
        added = {"remarks": digest(repr(by_hand))} if by_hand else {}  # a new comment or penalty renews the page
        is_current = entry.files and added.get("remarks") == entry.files.get("remarks")
        if not (is_current and all(holds(path, entry.files[name]) for name, path in places.items())):
            page = feedback(submission, entry.verdicts, comments, penalty)
            made = {"autograded": autograded(submission, entry.verdicts), "feedback": page}
            entry = replace(entry, files={name: digest(text) for name, text in made.items()} | added)
            if entry != result.earlier:
                self.journal.write(student, lesson, entry)
            for name, text in made.items():
                write_atomically(places[name], text)
        answered = [name for name in submission.release.questions if submission.answer_in_words(name)]
        self.gradebook.write(student, lesson, entry.verdicts, answered)
        return Graded(replace(submission, cells=()), entry.verdicts)

    def _last_good(self, graded: Graded) -> dict[str, float]:
        """Return the scores, by exercise, of the last submission that could be read: this one or an earlier one."""
        student, lesson = graded.submission.student, graded.submission.lesson
        if not graded.submission.problem:
            return {v.exercise: v.score for v in graded.verdicts}
        before = self.journal.read(student, lesson)
        return before.good if before else self.gradebook.scores(student, lesson)

    def write_csv(self) -> None:
        """Write grades.csv from the journal: a row for each student and exercise that was ever graded here, as in the
        gradebook, in the order of the course."""
        write_table(self.out / "grades.csv", self._recorded())

    def _recorded(self) -> Iterator[Verdict]:
        for student in sorted(self.journal.students()):
            graded = self.journal.lessons(student)
            for lesson in (name for name in LESSONS if name in graded):
                entry = self.journal.read(student, lesson)
                yield from entry.verdicts if entry else ()


def _with_last_score(verdict: Verdict, submission: Submission, good: dict[str, float]) -> Verdict:
    """Return a verdict whose message, if the submission cannot be read, mentions the score of the last readable one."""
    if not submission.problem or not any(good.values()):
        return verdict
    score = f"{good.get(verdict.exercise, 0.0):g} of {verdict.max_score:g}"
    return replace(verdict, message=f"{verdict.message} An earlier submission that could be read scored {score} here.")
