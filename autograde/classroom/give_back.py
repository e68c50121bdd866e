"""Return feedback: torchcourse's pages through nbgrader's exchange, or an archive to upload to Moodle or Canvas.

What the platforms do with the files of such an archive, after their sources (Moodle's
mod/assign/feedback/file/importziplib.php, Canvas's app/models/abstract_assignment.rb):

    Moodle  finds the participant by the name of the folder in the archive that it made, and adds the file under its own
            name: each learner gets the feedback page
    Canvas  finds user and attachment by the numbers in the name of the file, and attaches the file as a comment under
            the name of the attachment, `01_tensors.ipynb`: each learner gets the autograded notebook

The names are those of the archive that `torchcourse collect` took the submissions from.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nbgrader.apps import NbGraderAPI

from autograde.classroom.class_config import class_config
from autograde.classroom.collect import MOODLE, collected_names
from autograde.errors import RefusedError
from autograde.files import write_atomically
from autograde.results.exchange_files import SECRET_FILE, TIME_FILE

__all__ = ["GivenBack", "feedback_archive", "release_pages"]


@dataclass
class GivenBack:
    """Students who get their results, those who do not with the reason, and the number of files in an archive."""

    students: list[str] = field(default_factory=list)
    files: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def feedback_archive(folder: Path, lesson: str, submitted: Path, target: Path) -> GivenBack:
    """Write the archive with everybody's results in a lesson that the platform takes back.

    Args:
        folder: the folder with the results.
        submitted: the folder that `torchcourse collect` wrote to.

    Raises:
        RefusedError: when nothing was collected, or none of it is graded.
    """
    names = collected_names(submitted, lesson)
    if not names:
        raise RefusedError(f"No archive of {lesson} was collected into {submitted}, so the names that the platform "
                           "expects are not known: run `torchcourse collect` with its archive.")  # fmt: skip
    given = GivenBack()
    data, written = io.BytesIO(), set[str]()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, entry in sorted(names.items()):
            source, name = _file_for(folder, student, lesson, entry)
            if not source.is_file():
                given.left_out[student] = "not graded yet"
                continue
            given.students.append(student)
            if name not in written:  # a group has one entry
                archive.write(source, name)
                written.add(name)
    given.files = len(written)
    for page in sorted((folder / "feedback").glob(f"*/{lesson}.html")):
        if page.parent.name not in names:
            given.left_out[page.parent.name] = f"in no archive that was collected; the page is {page}"
    if not given.students:
        raise RefusedError(f"Nothing of {lesson} is graded in {folder}: run `torchcourse grade {lesson}` first.")
    write_atomically(target, data.getvalue())
    return given


def _file_for(folder: Path, student: str, lesson: str, entry: str) -> tuple[Path, str]:
    """Return the file that a student gets, and its name in the archive."""
    if match := MOODLE.fullmatch(entry):
        return folder / "feedback" / student / f"{lesson}.html", f"{entry[: match.start('file')]}{lesson}.html"
    return folder / "autograded" / student / lesson / f"{lesson}.ipynb", PurePosixPath(entry).name


def release_pages(folder: Path, lesson: str) -> GivenBack:
    """Put torchcourse's feedback pages where nbgrader keeps its own, and have nbgrader release them through the
    exchange.

    Args:
        folder: a class folder.

    Raises:
        RefusedError: when no submission came through the exchange, or nbgrader cannot release.
    """
    given = GivenBack()
    for page in sorted((folder / "feedback").glob(f"*/{lesson}.html")):
        student = page.parent.name
        files = [folder / "autograded" / student / lesson / name for name in (TIME_FILE, SECRET_FILE)]
        if not all(path.is_file() for path in files):
            given.left_out[student] = "not handed in through the exchange"
            continue
        given.students.append(student)
        for path in files:
            write_atomically(page.parent / lesson / path.name, path.read_bytes())
        write_atomically(page.parent / lesson / f"{lesson}.html", page.read_bytes())
    if not given.students:
        raise RefusedError(f"No graded submission of {lesson} in {folder} came through nbgrader's exchange: use --zip "
                           "for Moodle and Canvas, or hand out the pages in feedback/ in another way.")  # fmt: skip
    config = class_config(folder)
    config.CourseDirectory.student_id_exclude = ",".join(name for name in given.left_out if "," not in name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader 0.9 misspells an argument of its own and leaves a file open
        result = NbGraderAPI(config=config).release_feedback(lesson)
    if not result["success"]:
        last = (result.get("error") or result.get("log") or "").strip().splitlines()[-1:]
        raise RefusedError(f"nbgrader could not release the feedback: {' '.join(last) or 'it does not say why'}")
    return given
