"""Write the results of submissions: journal, autograded notebook, feedback page, gradebook, and grades.csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from torchcourse.model.catalogue import in_order

__all__ = ["Recorded", "Recorder", "Result", "ScoreChange"]


@dataclass(frozen=True)
class Result:
    """A graded submission, its key, and its journal entry if an earlier run graded it."""

    graded: Graded
    key: str
    earlier: Entry | None = None


@dataclass(frozen=True)
class ScoreChange:
    """A score that differs from the one recorded before.

    Attributes:
        after: what the grader found.
        resubmitted: whether the student has handed in something else.
        kept: whether the earlier verdict stays all the same; if `resubmitted`, the whole earlier submission counts.
    """

    before: Verdict
    after: Verdict
    resubmitted: bool
    kept: bool


@dataclass(frozen=True)
class Recorded(Graded):
    """A submission without its cells, the verdicts that were recorded, and the scores that differ from those before."""

    changes: Sequence[ScoreChange] = ()


@dataclass(frozen=True)
class Recorder:
    """Writes everything that grading leaves below `out`, and the gradebook.

    Attributes:
        never_lower: whether a submission that is graded again keeps each score that would be lower.
        best: whether a student's earlier submission counts where a new one has fewer points.
    """

    out: Path
    journal: Journal
    gradebook: Writer
    never_lower: bool = False
    best: bool = False

    def record(self, result: Result) -> Recorded:
        """Write the results of a submission.

        The journal is written first, with digests of the other files. So a file that a killed run did not write is
        found missing by the next run, which writes it without grading again.
        """
        submission, entry = result.graded.submission, result.earlier
        student, lesson = submission.student, submission.lesson
        changes: list[ScoreChange] = []
        if entry is None:
            good = self._last_good(result.graded)
            verdicts = [_with_last_score(v, submission, good) for v in result.graded.verdicts]
            before = self.journal.read(student, lesson)
            if before:
                again = before.files.get("submission", "") not in ("", _submission_digest(submission))
                stays = self.best and again and _points(verdicts) < _points(before.verdicts)
                changes = list(self._changes(before.verdicts, verdicts, again, stays))
                if stays:
                    return Recorded(replace(submission, cells=()), before.verdicts, changes)
            entry = Entry(result.key, _settled(verdicts, changes), good, {})
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
            added["submission"] = _submission_digest(submission)
            entry = replace(entry, files={name: digest(text) for name, text in made.items()} | added)
            if entry != result.earlier:
                self.journal.write(student, lesson, entry)
            for name, text in made.items():
                write_atomically(places[name], text)
        answered = [name for name in submission.release.questions if submission.answer_in_words(name)]
        self.gradebook.write(student, lesson, entry.verdicts, answered)
        return Recorded(replace(submission, cells=()), entry.verdicts, changes)

    def _changes(
        self, before: Sequence[Verdict], after: Sequence[Verdict], resubmitted: bool, stays: bool
    ) -> Iterator[ScoreChange]:
        """Yield the scores that differ. If the whole earlier submission `stays`, all of its scores are kept."""
        earlier = {verdict.exercise: verdict for verdict in before}
        for found in after:
            old = earlier.get(found.exercise, found)
            lower = found.score < old.score and found.max_score == old.max_score
            if found.score != old.score:
                yield ScoreChange(old, found, resubmitted, stays or (self.never_lower and lower and not resubmitted))

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
            for lesson in in_order(graded):
                entry = self.journal.read(student, lesson)
                yield from entry.verdicts if entry else ()


def _points(verdicts: Sequence[Verdict]) -> float:
    return sum(verdict.score for verdict in verdicts)


def _settled(verdicts: Sequence[Verdict], changes: Sequence[ScoreChange]) -> list[Verdict]:
    """Return the verdicts to be recorded: where a change keeps the one before, that one."""
    kept = {change.after.exercise: change.before for change in changes if change.kept}
    return [kept.get(verdict.exercise, verdict) for verdict in verdicts]


def _submission_digest(submission: Submission) -> str:
    cells = [(cell.kind, cell.source, cell.grade_id) for cell in submission.cells]
    return digest(repr((submission.problem, cells)))


def _with_last_score(verdict: Verdict, submission: Submission, good: dict[str, float]) -> Verdict:
    """Return a verdict whose message, if the submission cannot be read, mentions the score of the last readable one."""
    if not submission.problem or not any(good.values()):
        return verdict
    score = f"{good.get(verdict.exercise, 0.0):g} of {verdict.max_score:g}"
    return replace(verdict, message=f"{verdict.message} An earlier submission that could be read scored {score} here.")
