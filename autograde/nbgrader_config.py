"""nbgrader's configuration: our reader and engine behind nbgrader's own commands and the formgrader.

Run nbgrader in this folder, or load this file from a class's own nbgrader_config.py.
"""

import sys
from pathlib import Path

from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    IgnorePattern,
    LimitOutput,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from autograde.batch.nbgrader_folders import protect_batches  # noqa: E402
from autograde.batch.nbgrader_pages import FILTERS, protect_formgrader  # noqa: E402
from autograde.batch.nbgrader_plugin import GradeSubmission, TolerantExporter  # noqa: E402
from autograde.classroom.late import ExtendedLatePenalties  # noqa: E402
from autograde.course.build import release_steps  # noqa: E402

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - traitlets defines it

# nbgrader's folders are in build/, which git ignores, unless an option such as --course-dir says otherwise
c.CourseDirectory.root = str(HERE / "build")
c.CourseDirectory.db_url = f"sqlite:///{HERE / 'build' / 'gradebook.db'}"

# what learners write must not act on a page, nor a bad timestamp or name stop a batch
c.HTMLExporter.filters = FILTERS
protect_formgrader()
protect_batches()

# learners may write anything into the exchange's inbox
c.ExchangeFactory.collect = "autograde.classroom.exchange.CollectOwned"

c.GenerateAssignment.preprocessors = release_steps()

c.Autograde.exporter_class = TolerantExporter
c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    DeduplicateIds,
    OverwriteKernelspec,
    OverwriteCells,
    CheckCellMetadata,
]
c.Autograde.autograde_preprocessors = [
    GradeSubmission,  # in place of Execute: no code of a submission runs in this process or in a kernel
    IgnorePattern,
    LimitOutput,
    SaveAutoGrades,  # reads the outputs that GradeSubmission left
    ExtendedLatePenalties,
    CheckCellMetadata,
]
