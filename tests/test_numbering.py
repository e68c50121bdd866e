"""Workers of graders that run at once on one machine are told apart."""

from __future__ import annotations

import subprocess
import sys

from autograde.crew import LocalCrew
from autograde.enclosure import Enclosure
from autograde.numbering import give_back, take_number
from autograde.settings import LIMITS

CODE = "from autograde.numbering import take_number; print(take_number())"


def taken_elsewhere() -> int:
    """The number that another process gets, which ends at once."""
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return int(said.stdout)


def test_no_two_workers_of_a_machine_have_one_number() -> None:
    first, second = take_number(), take_number()
    assert len({first, second, taken_elsewhere()}) == 3
    give_back(second)
    third = take_number()
    give_back(third)
    give_back(first)
    assert third <= second


def test_two_graders_at_once_give_their_workers_numbers_of_their_own() -> None:
    crews = [LocalCrew({}, 2, LIMITS, Enclosure()) for _ in range(2)]
    numbers = {sandbox.number for crew in crews for sandbox in crew.sandboxes}
    for crew in crews:
        crew.close()
    assert len(numbers) == 4
