"""Each file of rules/ gets around what an exercise forbids or counts, or what is observed, or what is wanted at all.

Its first line has the lesson, the exercise, and the verdicts that it may get; "hidden" after the exercise makes it run
on hidden cases too. None of them does any harm, so they run here, on the CPU; the sandbox changes nothing about what is
observed.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules import module as everywhere
from torch.nn.utils import clip_grad
from torch.overrides import _get_current_function_mode_stack, _pop_mode

from autograde.judge.oracle import Oracle, hidden, oracle
from autograde.judge.run_submission import ExerciseRun, Reply
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict, decide
from autograde.source.release import load_release
from torchcourse.checking import audit
from torchcourse.checking.call_watch import warm
from torchcourse.checking.operator_record import WITHOUT_OPERATORS, keep_recording, sharing_a_run
from torchcourse.checking.probe import observe_first
from torchcourse.model import codec
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.devices import CPU

HERE = Path(__file__).parent / "rules"
SEED = 11
ATTACKS = sorted(path.stem for path in HERE.glob("*.py"))
LESSONS_WITH_RULES = [
    ("01_tensors", "row_softmax"), ("01_tensors", "one_hot"), ("01_tensors", "pairwise_distances"),
    ("01_tensors", "sliding_windows"), ("01_tensors", "select_scores"), ("02_autograd", "linear_mse_gradients"),
    ("03_modules", "Affine"), ("04_data", "MemmapDataset"), ("04_data", "ShardedStream"),
    ("05_training", "clip_gradients"), ("06_gpu", "checkpointed"), ("06_gpu", "elapsed"),
]  # fmt: skip

judge_of = cache(oracle)


@pytest.fixture(scope="module", autouse=True)
def _as_in_a_worker() -> None:
    warm(each.forbids for lesson in LESSONS for each in exercises(lesson).values())
    keep_recording()
    audit.watch_preparations()


def verdict(judge: Oracle, lesson: str, answer: Any) -> Verdict:
    """Return the verdict on an answer, observed as a prober does in all cases of `judge` on the CPU."""
    with sharing_a_run():
        seen = [observe_first(judge.exercise, answer, case) for case in judge.cases]
    replies = [Reply(codec.unpack(codec.pack(each()))) for each in seen]
    runs = {CPU.name: ExerciseRun(replies)}
    return decide(Submission("ann", load_release(lesson)), judge, len(judge.cases), runs)


@pytest.fixture(autouse=True)
def _what_an_attack_leaves_behind_ends_with_its_test() -> Iterator[None]:
    modules, clip = dict(sys.modules), dict(vars(clip_grad))
    yield
    sys.modules.update(modules)
    vars(clip_grad).update(clip)
    everywhere._global_forward_hooks.clear()
    audit._prepared.clear()
    sys.settrace(None)
    sys.setprofile(None)
    while _get_current_function_mode_stack():
        _pop_mode()


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.filterwarnings("ignore")
def test_an_evasion_gets_its_verdict_and_no_points(name: str) -> None:
    source = (HERE / f"{name}.py").read_text()
    place, _, allowed = source.splitlines()[0].removeprefix("# ").partition(": ")
    lesson, exercise, *more = place.split()
    judge = oracle(lesson, exercise, partial(hidden, lesson, seed=SEED)) if more else judge_of(lesson, exercise)
    names = runpy.run_path(str(HERE / f"{name}.py"))
    given = verdict(judge, lesson, names[exercise])
    assert given.score == 0
    assert given.status in allowed.split(","), given.message


@pytest.mark.parametrize(("lesson", "name"), LESSONS_WITH_RULES)
def test_the_reference_passes_under_the_same_watch(lesson: str, name: str) -> None:
    judge = judge_of(lesson, name)
    given = verdict(judge, lesson, judge.reference)
    assert (given.status, given.score) == ("passed", given.max_score), given.message


def test_recursion_without_end_is_no_evasion() -> None:
    """Python ends a watch that it can no longer call: that is not the answer's doing."""

    def clip_gradients(parameters: Any, max_norm: float) -> Any:
        return clip_gradients(list(parameters), max_norm)

    given = verdict(judge_of("05_training", "clip_gradients"), "05_training", clip_gradients)
    assert given.status == "error"
    assert "RecursionError" in given.message


@pytest.mark.parametrize("path", WITHOUT_OPERATORS)
def test_what_computes_without_operators_is_not_there(path: str) -> None:
    with pytest.raises(RuntimeError, match="not available"):
        attrgetter(path)(torch._C)()
