"""The quizzes: PyTorch is the judge, no predictor may call it, and a wrong one is shown its run."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from autograde.judge.oracle import Oracle, oracle, references, visible
from autograde.source import paths
from autograde.source.script import read_script
from torchcourse.checking.card import as_html, as_text
from torchcourse.checking.card_details import card_details
from torchcourse.checking.check import report_on
from torchcourse.demos import ask
from torchcourse.exercises.quizzes.autocast_result import FULL, HALF, OPERATIONS, PAIRS
from torchcourse.exercises.quizzes.backward_outcome import STEPS
from torchcourse.exercises.quizzes.registered import KINDS
from torchcourse.exercises.quizzes.result_dtype import DTYPES, NUMBERS
from torchcourse.model import path
from torchcourse.model.catalogue import exercises, find
from torchcourse.model.exercise import Draw

LESSON = "15_quizzes"
QUIZZES = exercises(LESSON)


def every_addition() -> Iterable[tuple[Any, ...]]:
    operands = [(kind, dtype) for kind in ("tensor", "scalar") for dtype in DTYPES]
    operands += [("number", dtype) for dtype in NUMBERS]
    return (pair for pair in itertools.product(operands, repeat=2) if {kind for kind, _ in pair} != {"number"})


def every_listed_operation() -> Iterable[tuple[Any, ...]]:
    for op, device in itertools.product(OPERATIONS, ("cpu", "cuda")):
        for dtypes in itertools.product((FULL, HALF), repeat=2 if op in PAIRS else 1):
            yield op, dtypes, device


def many_layouts() -> Iterable[tuple[Any, ...]]:
    draw = Draw(5)
    for _ in range(1500):
        shape = tuple(draw.pick([1, 2, 2, 3, 4]) for _ in range(draw.size(0, 4)))
        stride = tuple(draw.pick([0, 1, 1, 2, 3, 4, 6, 12]) for _ in shape)
        count, new = torch.Size(shape).numel(), []
        while count > 1:
            new.append(draw.pick([size for size in range(2, count + 1) if count % size == 0]))
            count //= new[-1]
        yield shape, stride, tuple(new)


ALL: dict[str, Callable[[], Iterable[tuple[Any, ...]]]] = {
    "result_dtype": every_addition,
    "autocast_result": every_listed_operation,
    "backward_outcome": lambda: ((list(s),) for n in (1, 2, 3) for s in itertools.product(STEPS, repeat=n)),
    "view_possible": many_layouts,
    "registered": lambda: (([("a", one), ("b", other)],) for one, other in itertools.product(KINDS, repeat=2)),
}


@pytest.mark.parametrize("name", ALL)
def test_the_reference_says_what_pytorch_does_far_beyond_the_drawn_cases(name: str) -> None:
    reference, torchs = references(LESSON)[name], QUIZZES[name].ground_truth
    assert torchs is not None
    cases = list(ALL[name]())
    assert len(cases) > 40
    for inputs in cases:
        predicted, done = reference(*inputs), torchs(*inputs)
        assert predicted == done, inputs


def test_what_is_wanted_comes_from_pytorch_and_not_from_the_reference() -> None:
    exercise = QUIZZES["broadcast_shape"]
    made = Oracle(exercise, lambda *shapes: (), [], visible(exercise))
    assert made.wanted("cpu", 0) == oracle(LESSON, "broadcast_shape").wanted("cpu", 0)
    assert made.wanted("cpu", 0)["prediction"] != ()


CHEATS: dict[str, Callable[..., Any]] = {
    "broadcast_shape": lambda *shapes: tuple(torch.broadcast_shapes(*shapes)),
    "view_possible": lambda *layout: ask.pytorch("view_possible", *layout),
    "result_dtype": lambda a, b: torch.promote_types(a[1], b[1]),
    "reduction_gradient": lambda kind, values: torch.tensor(values).sign().tolist(),
    "backward_outcome": lambda steps: QUIZZES["backward_outcome"].ground_truth(steps),  # type: ignore[misc]
    "load_outcome": lambda saved, wanted, strict: torch.nn.Linear(1, 1).load_state_dict(saved, strict=strict),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_predictor_that_asks_torch_is_told_which_call_is_not_allowed(name: str) -> None:
    report = report_on(name, {name: CHEATS[name]})
    assert report.status == "forbidden", report.message
    assert re.search(r"uses `torch\.[\w.]+`.*work it out from the inputs", report.message)


def test_dtypes_are_values_and_not_calls() -> None:
    def result_dtype(a: Any, b: Any) -> torch.dtype:
        assert torch.float16.itemsize < torch.float32.itemsize
        return {str(a[1]): a[1], str(b[1]): torch.bool}[f"{a[1]}"]

    assert report_on("result_dtype", {"result_dtype": result_dtype}).status == "failed"


@pytest.mark.parametrize("name", QUIZZES)
def test_an_answer_that_is_wrong_in_no_known_way_is_shown_pytorchs_run(name: str) -> None:
    report = report_on(name, {name: lambda *args, **options: {"of": "no use"}})
    assert report.status == "failed"
    assert report.misconception == ""
    assert re.search(r" PyTorch runs `[^`]+` and [a-z]+ .*\.$", report.message), report.message


@pytest.mark.parametrize("name", QUIZZES)
def test_each_quiz_is_asked_in_the_lesson_and_answered_on_the_card_of_a_right_one(name: str) -> None:
    interview = find(name)[1].interview
    assert interview is not None
    prose = " ".join(c.source for c in read_script(paths.SOLUTIONS / f"{LESSON}.py") if c.kind == "markdown")
    assert f'*"{interview.question}"*' in " ".join(prose.split())
    assert len(re.findall(r"[^.]\.(?= [A-Z`]|$)", interview.answer)) == 3, interview.answer
    assert interview.taught in itertools.chain(*path.STAGES.values())
    right, wrong = report_on(name, references(LESSON)), report_on(name, {name: lambda *args, **options: None})
    unfolded = as_html(right, card_details(right, references(LESSON)[name]))
    assert f'<a href="{interview.taught}.ipynb">' in unfolded
    assert interview.answer.split("`")[0] in as_text(right, card_details(right, references(LESSON)[name]))
    assert "Asked in an interview" not in as_html(wrong, card_details(wrong, None))


def test_pytorch_can_be_asked_for_quizzes_only() -> None:
    assert ask.pytorch("scaler_scales", [True, False], scale=8.0, interval=1) == [16.0, 8.0]
    with pytest.raises(LookupError, match="row_softmax is no quiz"):
        ask.pytorch("row_softmax", torch.ones(2))


RANK = """
import sys
import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

rank, shards, file = int(sys.argv[1]), eval(sys.argv[2]), sys.argv[3]
init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=len(shards))
model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
model(torch.tensor(shards[rank]).view(-1, 1)).mean().backward()
if rank == 0:
    print(next(model.parameters()).grad.item())
destroy_process_group()
"""


@pytest.mark.slow
def test_the_gradient_of_ranks_is_that_of_ddp_itself(tmp_path: Path) -> None:
    shards = [[1.0, 2.0, 3.0], [10.0]]
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
    commands = [[sys.executable, "-c", RANK, str(rank), str(shards), str(tmp_path / "store")] for rank in (0, 1)]
    ranks = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        said = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    torchs = QUIZZES["ddp_gradient"].ground_truth
    assert torchs is not None
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert float(said[0]) == pytest.approx(torchs(shards)[0]) == 6.0
