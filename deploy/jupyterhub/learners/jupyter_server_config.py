"""The server of a learner: their home is the working copy, which keeps their progress."""

from pathlib import Path

c = get_config()  # noqa: F821 - traitlets defines it

(Path.home() / ".torchcourse").mkdir(exist_ok=True)  # as `torchcourse lab` makes it
c.ServerApp.jpserver_extensions = {
    "nbgrader.server_extensions.course_list": False,
    "nbgrader.server_extensions.formgrader": False,
}
