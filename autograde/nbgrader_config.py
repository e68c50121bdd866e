"""nbgrader's configuration: our reader and engine behind nbgrader's own commands and the formgrader.

Run nbgrader in this folder, or load this file from a class's own nbgrader_config.py.
"""

import sys
from pathlib import Path

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ClearSolutions,
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

from nbgrader.converters import GenerateAssignment  # noqa: E402

from autograde.building import NameTheTask  # noqa: E402
from autograde.nbgrader_door import Examine, TolerantExporter, read_timestamps_tolerantly  # noqa: E402

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - given by whoever loads this, as in every such file

# nbgrader's step folders lie in build/, which git ignores; --course-dir and the like still say otherwise
c.CourseDirectory.root = str(HERE / "build")
c.CourseDirectory.db_url = f"sqlite:///{HERE / 'build' / 'gradebook.db'}"

# what learners wrote runs in nobody's browser, and stops nobody's batch
c.HTMLExporter.filters = {"markdown2html": "autograde.nbgrader_door.safe_markdown"}
read_timestamps_tolerantly()

steps = GenerateAssignment.preprocessors.default()
c.GenerateAssignment.preprocessors = [NameTheTask if step is ClearSolutions else step for step in steps]

c.Autograde.exporter_class = TolerantExporter
c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    DeduplicateIds,
    OverwriteKernelspec,
    OverwriteCells,
    CheckCellMetadata,
]
c.Autograde.autograde_preprocessors = [
    Examine,  # in place of Execute: nothing of a submission runs in this process or in a kernel of its
    IgnorePattern,
    LimitOutput,
    SaveAutoGrades,  # reads the outputs that Examine left
    AssignLatePenalties,
    CheckCellMetadata,
]
