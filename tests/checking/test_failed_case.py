"""The inputs of a failed case, for learners to look at."""

from __future__ import annotations

import sys
from collections.abc import Callable

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from torch import Tensor

from torchcourse import case, check


def row_softmax(x: Tensor) -> Tensor:
    weights = (x - x.amax(dim=0, keepdim=True)).exp()
    return weights / weights.sum(dim=0, keepdim=True)


def test_the_inputs_of_the_first_failed_case_are_new_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    check(row_softmax)
    capsys.readouterr()
    inputs = case("row_softmax")
    first, *outcome = capsys.readouterr().out.splitlines()
    assert first == 'row_softmax: the case "a matrix", on the CPU.'
    assert [line.partition(":")[0] for line in outcome] == ["came out", "wanted"]
    assert not torch.allclose(row_softmax(**inputs).sum(-1), torch.ones(()))
    inputs["x"].zero_()
    assert case(row_softmax)["x"].any()


def test_the_answer_is_called_on_them_as_outside_a_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[str] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append("here"))

    def raising(x: Tensor) -> Tensor:
        print("given", tuple(x.shape))
        breakpoint()
        return x @ x

    raising.__name__ = "row_softmax"
    check(raising)
    assert not stops
    assert 'it stops in `case("row_softmax")`, which calls your answer.' in capsys.readouterr().out
    assert tuple(case(raising)["x"].shape) == (4, 6)
    said = capsys.readouterr().out
    assert stops == ["here"]
    assert "given (4, 6)\n" in said
    assert "raising: return x @ x\ncame out: RuntimeError: mat1 and mat2 shapes cannot be multiplied" in said
    assert said.endswith("wanted:   no exception\n")


def test_what_is_called_is_the_answer_as_it_is_now(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(row_softmax)
    monkeypatch.setitem(globals(), "row_softmax", lambda x: (x - x.logsumexp(-1, keepdim=True)).exp())
    capsys.readouterr()
    case("row_softmax")
    assert capsys.readouterr().out.endswith("It is right in this case now.\n")


def test_an_answer_whose_arguments_have_other_names_is_called_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    def fit(*_: object, **__: object) -> None:
        return None

    check(fit)
    capsys.readouterr()
    assert "train" in case(fit)
    assert "came out: nothing\n" in capsys.readouterr().out


def test_an_answer_that_takes_a_function_gets_the_one_that_the_check_calls_it_with() -> None:
    calls: list[float] = []

    def derivative(f: Callable[[Tensor], Tensor], x: float) -> float:
        calls.append(x)
        return 1.0

    check(derivative)
    calls.clear()
    arguments = case(derivative)
    assert list(arguments) == ["f", "x"]
    assert calls == [arguments["x"]], "the answer is called once, on the case that failed"
    x = torch.tensor(arguments["x"], dtype=torch.float64, requires_grad=True)
    arguments["f"](x).backward()
    assert x.grad is not None


def test_a_case_that_fails_on_the_second_device_alone_comes_with_tensors_there() -> None:
    def causal_mask(x: Tensor) -> Tensor:
        return torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)

    check(causal_mask)
    assert case("causal_mask")["x"].device.type != "cpu"


def test_what_was_not_checked_or_was_right_has_none() -> None:
    with pytest.raises(LookupError, match="`describe` has not been checked yet"):
        case("describe")

    def row_softmax(x: Tensor) -> Tensor:
        return (x - x.logsumexp(-1, keepdim=True)).exp()

    check(row_softmax)
    with pytest.raises(LookupError, match="No case of `row_softmax` failed"):
        case("row_softmax")


def test_breakpoints_stop_in_a_kernel_too() -> None:
    """There debugpy's hook, which waits for JupyterLab's debugger, is in the place of Python's."""
    cells = [
        "from torchcourse import case, check",
        "def row_softmax(x):\n    breakpoint()\n    return x",
        'check("row_softmax")',
        'case("row_softmax");',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, allow_errors=True).execute()
    asked = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert "StdinNotImplementedError" in asked, asked  # nobody can answer the debugger's prompt here
