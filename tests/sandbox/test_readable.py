"""What submissions may read where libraries lie in another environment than Python."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from autograde.sandbox import configuration
from tests.support.alone import environment

GRADE = """
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.trial import trial_submission
from autograde.sandbox.sandbox import Sandbox
from tests.support.alone import environment

made = Sandbox(number=28)
try:
    print(LessonGrader("01_tensors").grade(made, trial_submission("01_tensors")).verdicts[0].status)
finally:
    made.close()
"""


def test_an_environment_that_a_pth_file_adds_is_readable_and_a_checkout_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, checkout = tmp_path / "shared" / "site-packages", tmp_path / "checkout"
    for place, name in ((shared, "lib_in_layer"), (checkout, "lib_in_checkout")):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").touch()
        monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(configuration, "LIBRARIES", ("lib_in_layer", "lib_in_checkout", "not_there_at_all"))
    readable = configuration.readable()
    assert str(shared) in readable
    assert not [path for path in readable if path.startswith(str(checkout))]


@pytest.mark.sandbox
def test_an_environment_that_a_pth_file_leads_to_this_ones_packages_can_grade(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / "env" / "lib" / version / "site-packages"
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [python, "-c", GRADE]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "passed\n", done.stderr
