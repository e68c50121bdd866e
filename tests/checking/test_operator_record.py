"""Several blocks are recorded in one run of torch's profiler, and each record has what ran in its own block."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch
from torch import Tensor
from torch._C._autograd import _disable_profiler

from torchcourse.checking import operator_record
from torchcourse.checking.operator_record import OperatorRecord, sharing_a_run

X = torch.arange(6.0).view(2, 3)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Collect the runs of the profiler that start, by whether they record inputs."""
    started: list[bool] = []
    init = operator_record._Run.__init__

    def noted(run: operator_record._Run, with_inputs: bool) -> None:
        started.append(with_inputs)
        init(run, with_inputs)

    monkeypatch.setattr(operator_record._Run, "__init__", noted)
    return started


def test_each_record_has_what_ran_in_its_block_and_nothing_between(starts: list[bool]) -> None:
    with sharing_a_run():
        with OperatorRecord() as first:
            X.exp()
        X.sin()
        with OperatorRecord() as second:
            X.log().cos()
    assert (first.read().names, first.read().calls) == (["aten::exp"], 1)
    assert (sorted(second.read().names), second.read().calls) == (["aten::cos", "aten::log"], 2)
    assert first.read().intact
    assert second.read().intact
    assert starts == [False]


def test_other_threads_count_in_the_block_in_which_they_run() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(X.exp).result()  # so that the thread exists
        with sharing_a_run():
            records = [OperatorRecord() for _ in range(3)]
            with records[0]:
                X.log()
            pool.submit(X.sin).result()
            with records[1]:
                pool.submit(X.exp).result()
            with records[2]:
                X.cos()
    seen = [record.read() for record in records]
    assert [each.names for each in seen] == [["aten::log"], ["aten::exp"], ["aten::cos"]]
    assert [each.other_threads for each in seen] == [False, True, False]
    assert all(each.intact for each in seen)


def test_reading_a_record_ends_the_run_and_the_next_block_starts_another(starts: list[bool]) -> None:
    with sharing_a_run():
        for call in (Tensor.exp, Tensor.log):
            with OperatorRecord() as record:
                call(X)
            assert record.read().names == [f"aten::{call.__name__}"]
    assert starts == [False, False]


def test_inputs_are_recorded_in_a_run_of_their_own(starts: list[bool]) -> None:
    q, k = torch.ones(1, 4, 2, 8), torch.ones(1, 2, 2, 8)
    with sharing_a_run():
        with OperatorRecord() as without:
            torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
        with OperatorRecord(with_inputs=True) as with_inputs:
            torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    assert (without.read().groups_heads, with_inputs.read().groups_heads) == (False, True)
    assert starts == [False, True]


@pytest.mark.parametrize("restarts", [False, True])
def test_where_a_block_ends_the_run_no_record_of_it_is_intact(restarts: bool) -> None:
    with sharing_a_run():
        with OperatorRecord() as before:
            X.exp()
        with OperatorRecord() as ending:
            _disable_profiler()
            if restarts:
                operator_record._enable_profiler(operator_record._config(False), operator_record.CPU_ACTIVITY)
        with OperatorRecord() as after:
            X.exp()
    assert not any(record.read().intact for record in (before, ending, after))
    with suppress(RuntimeError):
        _disable_profiler()


def test_a_block_whose_end_or_start_is_inside_another_event_is_not_intact() -> None:
    with sharing_a_run():
        with OperatorRecord() as record:
            handle = operator_record._record_function_with_args_enter("aten::add")
            X.exp()
        operator_record._record_function_with_args_exit(handle)
        with OperatorRecord() as later:
            X.exp()
    assert (record.read().intact, later.read().intact) == (False, True)


def test_a_mark_that_is_seen_again_proves_nothing() -> None:
    with sharing_a_run(), OperatorRecord() as record:
        operator_record._runs[0].add_mark(record)
        X.exp()
    assert not record.read().intact


def test_a_block_alone_has_a_run_of_its_own(starts: list[bool]) -> None:
    for _ in range(2):
        with OperatorRecord() as record:
            X.exp()
        assert not operator_record._runs
        assert record.read().names == ["aten::exp"]
    assert len(starts) == 2
