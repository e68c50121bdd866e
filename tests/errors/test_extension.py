"""`%load_ext torchcourse`: real errors of torch, the tensors they are about, and a traceback that stays as it was."""

from __future__ import annotations

import io
import linecache
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcourse
from torchcourse.errors.explanations import KINDS, explain_error, kind_of
from torchcourse.errors.traceback_tensors import in_learners_code
from torchcourse.model import devices

DEVICE = devices.find_accelerator().device

# Each is run as a cell: what it raises, of which kind that is, and words that the paragraph must have.
ERRORS = {
    "x = torch.zeros(2, 3)\nw = torch.zeros(4, 5)\nx @ w":
        ("product", "`x` has shape (2, 3), float32, on cpu", "`w` has shape (4, 5)"),
    "layer = nn.Linear(8, 2)\nimages = torch.zeros(4, 2, 2, 2)\nlayer(images)":
        ("product", "`images` has shape (4, 2, 2, 2)", "Inside Linear.forward, `self.weight` has shape (2, 8)"),
    "net = nn.Conv2d(3, 4, 1)\nimages = torch.zeros(1, 8, 8, 3)\nnet(images)":
        ("channels", "`images` has shape (1, 8, 8, 3)", "Inside Conv2d.forward, `self.weight` has shape (4, 3, 1, 1)"),
    "q = torch.zeros(2, 3, 4)\nk = torch.zeros(2, 3, 4)\ntorch.bmm(q, k)":
        ("product", "`q` has shape", "`k` has shape"),
    "a = torch.zeros(2, 3)\nb = torch.zeros(2)\na + b":
        ("broadcasting", "`a` has shape (2, 3)", "`b` has shape (2,)"),
    "a = torch.zeros(2, 3)\na += torch.zeros(4)": ("broadcasting", "`a` has shape (2, 3)"),
    "a = torch.zeros(3)\na.expand(4, 5)": ("broadcasting", "`a` has shape (3,)"),
    "a = torch.zeros(2, 3)\na[:, :2] = torch.ones(5)": ("broadcasting", "`a` has shape (2, 3)"),
    "parts = [torch.zeros(2, 3), torch.zeros(2, 4)]\ntorch.cat(parts)":
        ("joining", "`parts[0]` has shape (2, 3)", "`parts[1]` has shape (2, 4)"),
    "one, two = torch.zeros(2), torch.zeros(3)\ntorch.stack([one, two])": ("joining", "`one`", "`two`"),
    "x = torch.arange(6)\nx.view(4, 2)": ("reshape", "`x` has shape (6,), int64"),
    "x = torch.zeros(2, 3)\nx.t().view(-1)": ("reshape", "`x` has shape (2, 3)", "`reshape` copies"),
    "batch = {'x': torch.zeros(2, device=DEVICE), 'y': torch.zeros(2)}\nbatch['x'] + batch['y']":
        ("device", "`batch['x']` has shape (2,)", f"on {DEVICE}", "`batch['y']` has shape (2,), float32, on cpu"),
    "layer = nn.Linear(3, 2)\nx = torch.zeros(1, 3, device=DEVICE)\nlayer(x)": ("device", "`x`", "`self.weight`"),
    "x = torch.zeros(3)\nrows = torch.tensor([0], device=DEVICE)\nx[rows]": ("device", "`x`", "`rows`"),
    "x = torch.zeros(3)\nrows = torch.tensor([0.0, 1.0])\nx[rows]":
        ("index-dtype", "`rows` has shape (2,), float32", "whole numbers"),
    "x = torch.zeros(2, 3)\nlabels = torch.tensor([[0.0], [1.0]])\nx.gather(1, labels)":
        ("index-dtype", "`labels` has shape (2, 1), float32"),
    "table = nn.Embedding(5, 2)\nids = torch.tensor([1.0])\ntable(ids)":
        ("index-dtype", "`ids` has shape (1,), float32"),
    "logits = torch.zeros(2, 3)\nlabels = torch.zeros(2)\nF.cross_entropy(logits, labels)":
        ("target-dtype", "`logits`", "`labels` has shape (2,), float32"),
    "logits = torch.zeros(2, 3)\nlabels = torch.zeros(2, dtype=torch.int32)\nF.cross_entropy(logits, labels)":
        ("target-dtype", "`labels` has shape (2,), int32"),
    "logits = torch.zeros(2, 3)\nhot = torch.zeros(2, 3, dtype=torch.int64)\nF.cross_entropy(logits, hot)":
        ("target-dtype", "`hot` has shape (2, 3), int64"),
    "logits = torch.zeros(4, 3)\nlabels = torch.zeros(2, dtype=torch.int64)\nF.cross_entropy(logits, labels)":
        ("batch", "`logits` has shape (4, 3)", "`labels` has shape (2,)"),
    "x = torch.zeros(2, 3)\nmask = torch.ones(3, dtype=torch.bool)\nx[mask]": ("batch", "`mask` has shape (3,), bool"),
    "layer = nn.Linear(3, 2)\nx = torch.zeros(1, 3, dtype=torch.float64)\nlayer(x)":
        ("dtype", "`x` has shape (1, 3), float64", "NumPy's floats"),
    "net = nn.Conv2d(1, 1, 1)\nx = torch.zeros(1, 1, 2, 2, dtype=torch.float64)\nnet(x)": ("dtype", "`x` has shape"),
    "x = torch.arange(3)\nx.mean()": ("dtype", "`x` has shape (3,), int64"),
    "counts = torch.arange(3)\ncounts += torch.tensor([0.5])": ("dtype", "`counts` has shape (3,), int64"),
    "ids = torch.arange(3)\nids.requires_grad_()": ("dtype", "`ids`"),
    "x = torch.zeros(2, 3)\nw = torch.zeros(3, 2, dtype=torch.float64)\nx @ w":
        ("dtype", "`x` has shape (2, 3), float32", "`w` has shape (3, 2), float64"),
    "w = torch.ones(3, requires_grad=True)\nh = w.exp()\nh += 1\nh.sum().backward()":
        ("in-place", "written to in place: `h` has shape (3,)"),
    "w = torch.ones(3, requires_grad=True)\nw -= 0.1": ("leaf-in-place", "`w` has shape (3,)", "no_grad"),
    "w = torch.ones(3, requires_grad=True)\nw[0] = 2.0": ("leaf-in-place", "`w` has shape (3,)"),
    "w = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()":
        ("second-backward", "`loss` has shape ()"),
    "w = torch.ones(3, requires_grad=True)\ny = w * 2\ny.backward()": ("not-a-scalar", "`y` has shape (3,)"),
    "x = torch.ones(3)\nloss = x.sum()\nloss.backward()": ("no-graph", "`loss` has shape ()"),
    "x = torch.zeros(2, 3)\nx[5]": ("out-of-range", "`x` has shape (2, 3)"),
    "x = torch.zeros(2, 3)\nx.sum(dim=4)": ("out-of-range", "`x` has shape (2, 3)"),
    "table = nn.Embedding(5, 2)\nids = torch.tensor([5])\ntable(ids)": ("out-of-range", "`ids` has shape (1,), int64"),
    "logits = torch.zeros(2, 3)\nlabels = torch.tensor([0, 3])\nF.cross_entropy(logits, labels)":
        ("out-of-range", "`labels` has shape (2,)"),
    "layer = nn.Linear(768, 10)\nimages = torch.zeros(2, 784)\nlayer(images)":
        ("product", "`images`", "784 is not 768."),
    "t = torch.zeros(3)\nt[5]": ("out-of-range", "`t` has shape (3,)", "indices 0 to 2, and 5 is none of them"),
    "logits = torch.zeros(2, 3)\ny = torch.tensor([0, 7])\nF.cross_entropy(logits, y)":
        ("out-of-range", "3 classes count from 0 to 2, and 7 is none of them."),
    "logits = torch.zeros(4, 3)\ny = torch.tensor([0, 1, 2, -1])\nF.cross_entropy(logits, y)":
        ("out-of-range", "3 classes count from 0 to 2, and -1 is none of them."),
    "model = nn.Linear(3, 2)\nmodel.load_state_dict(nn.Linear(4, 2).state_dict())": ("state-dict", "other sizes"),
    "raise RuntimeError('Found no NVIDIA driver on your system.')": ("no-cuda", "is_available()"),
    "raise AssertionError('Torch not compiled with CUDA enabled') from None\n": ("no-cuda", "map_location"),
    "x = torch.zeros(3)\nif x > 0: pass": ("truth-value", "`x` has shape (3,)", "`(x > 0).any()`"),
    "x = torch.zeros(3)\nnn.ReLU(x)(x)": ("truth-value", "`nn.ReLU()(x)`"),
    "w = torch.zeros(2, requires_grad=True)\nw.numpy()": ("numpy-of-a-graph", "`.detach().cpu().numpy()`"),
    "x = torch.zeros(2)\ny = torch.zeros(2, device='meta')\nx + y": ("device", "`y` has shape (2,), float32, on meta"),
    "x = torch.zeros(2, device=DEVICE)\nx.numpy()": ("device", "`.cpu()` first"),
    "net = nn.LSTM(4, 5)\nx = torch.zeros(2, 3, 6)\nnet(x)": ("input size", "`x` has shape (2, 3, 6)"),
    "net = nn.LSTM(4, 5)\nx = torch.zeros(2, 3, 4)\nnet(x, (torch.zeros(1, 2, 5), torch.zeros(1, 3, 5)))":
        ("batch", "`x` has shape (2, 3, 4)"),
    "net = nn.LayerNorm(5)\nx = torch.zeros(2, 4)\nnet(x)": ("product", "`x` has shape (2, 4)"),
    "logits = torch.zeros(4, 3)\nlabels = torch.zeros(4, 1, dtype=torch.int64)\nF.cross_entropy(logits, labels)":
        ("target-shape", "`labels` has shape (4, 1)", "`labels.squeeze(1)`"),
    "a = torch.zeros(3)\nb = torch.zeros(3, dtype=torch.float64)\na @ b":
        ("dtype", "`b` has shape (3,), float64", "`.float()`"),
    "layer = nn.Linear(3, 2)\nlayer(None)": ("not-a-tensor", "Inside Linear.forward", "without `return`"),
    "layer = nn.Conv2d(3, 2, 1)\nlayer(None)": ("not-a-tensor", "without `return`"),
    "torch.stack([1, 2])": ("not-a-tensor", "`torch.tensor` makes a tensor"),
    "out = None\nF.mse_loss(out, torch.zeros(2))": ("not-a-tensor", "without `return`"),
    "a = torch.zeros(2)\ntorch.cat(a, a)": ("list-of-tensors", "`a` has shape (2,)", "`torch.cat([a, b])`"),
    "x = torch.zeros(3)\nx[1.5]": ("index-dtype", "`x` has shape (3,)"),
    "norm = nn.BatchNorm1d(3)\nx = torch.zeros(2, 4)\nnorm(x)": ("channels", "`x` has shape (2, 4)", "num_features"),
    "x = torch.zeros(2, 3)\ntorch.bmm(x, x)": ("dimensions", "`x` has shape (2, 3)"),
    "losses = torch.zeros(3)\nlosses.item()": ("one-number", "`losses` has shape (3,)", "`.mean()`"),
    "losses = torch.zeros(3)\nfloat(losses)": ("one-number", "`losses` has shape (3,)"),
    "count = torch.tensor(3)\nlen(count)": ("no-dimensions", "`count` has shape ()"),
    "mask = torch.tensor([1, 0])\ntorch.where(mask, torch.zeros(2), torch.ones(2))":
        ("condition", "`mask` has shape (2,), int64", "`mask.bool()`"),
    "p = torch.tensor([2.0])\nF.binary_cross_entropy(p, torch.ones(1))":
        ("probability", "`p` has shape (1,)", "_with_logits"),
    "out, y = torch.zeros(3, 1), torch.zeros(3)\nF.binary_cross_entropy_with_logits(out, y)":
        ("batch", "`out` has shape (3, 1)", "labels of shape (n,)"),
    "nn.Linear(3)": ("missing-argument", "`nn.Linear(3, 2)`"),
    "nn.Linear(3, 2)()": ("missing-argument", "without a batch"),
    "class Net(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\nNet()":
        ("before-init", "super().__init__()"),
    "norm = nn.BatchNorm1d(4)\nx = torch.zeros(1, 4)\nnorm(x)": ("one-value", "drop_last=True"),
    "net = nn.Conv2d(1, 1, 5)\nx = torch.zeros(1, 1, 3, 3)\nnet(x)": ("too-small", "`x` has shape (1, 1, 3, 3)"),
    "norm = nn.BatchNorm2d(4)\nx = torch.zeros(2, 4)\nnorm(x)": ("dimensions", "`x` has shape (2, 4)"),
    "net = nn.Conv2d(1, 1, 3)\nx = torch.zeros(3, 3)\nnet(x)": ("dimensions", "`x.unsqueeze(1)`"),
    "torch.optim.SGD([], lr=0.1)": ("no-parameters", "`nn.ModuleList`"),
    "torch.tensor([[1, 2], [3]])": ("ragged", "pad_sequence"),
    "w = torch.ones(1, requires_grad=True)\ntorch.autograd.grad(w * 2, torch.ones(1, requires_grad=True))":
        ("unused", "allow_unused=True"),
}  # fmt: skip


def raised_by(source: str, name: str = "<ipython-input-1-test>") -> BaseException:
    """What a cell with this text raises."""
    linecache.cache[name] = (len(source), None, [line + "\n" for line in source.splitlines()], name)
    names = {"torch": torch, "nn": nn, "F": nn.functional, "DEVICE": DEVICE}
    try:
        exec(compile(source, name, "exec"), names)
    except BaseException as error:
        return error
    raise AssertionError(f"nothing was raised by {source}")


@pytest.mark.parametrize("source", ERRORS)
def test_an_error_of_torchs_gets_its_tensors_and_its_causes(source: str) -> None:
    error = raised_by(source)
    kind, *words = ERRORS[source]
    found = kind_of(error)
    assert found is not None and found.name == kind, f"{type(error).__name__}: {error}"
    said = explain_error(error, error.__traceback__)
    assert [word for word in words if word not in said] == [], said
    assert "Usual causes: " in said
    assert "\n" not in said


@pytest.mark.parametrize("source", ["x = torch.ones(2)\nx.backward()", "x = torch.ones(2, device=DEVICE)\nx + [1]"])
def test_no_function_internal_to_a_library_is_named(source: str) -> None:
    error = raised_by(source)
    assert "Inside _" not in explain_error(error, error.__traceback__)


def test_every_kind_of_error_has_been_met() -> None:
    assert {kind for kind, *_ in ERRORS.values()} == {kind.name for kind in KINDS}


@pytest.mark.parametrize("source", ["1 / 0", "{}['a']", "raise RuntimeError('boo')", "int('x')", "torch.zeros(2, -1)"])
def test_of_other_errors_nothing_is_said(source: str) -> None:
    error = raised_by(source)
    assert explain_error(error, error.__traceback__) == ""


class Nasty:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


class WithProperty:
    def __init__(self) -> None:
        self.asked = 0

    @property
    def weight(self) -> Tensor:
        self.asked += 1
        return torch.zeros(2)


def test_looking_runs_nothing_of_the_learners_and_never_raises() -> None:
    watched, nasty = WithProperty(), Nasty()
    try:
        torch.zeros(2, 3) + watched.weight
    except RuntimeError as error:
        assert watched.asked == 1
        assert explain_error(error, error.__traceback__)
        assert watched.asked == 1
    try:
        (nasty, torch.zeros(2, 3) @ torch.zeros(2, 3))
    except RuntimeError as error:
        assert "Usual causes" in explain_error(error, error.__traceback__)
        assert in_learners_code(error.__traceback__) == []  # type: ignore[arg-type]
    assert "Usual causes" not in explain_error(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None)


@pytest.fixture
def shell() -> Iterator[Any]:
    """A shell of its own, without a terminal, history or configuration."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    made = interactive.InteractiveShell(config=config)
    yield made
    torchcourse.unload_ipython_extension(made)
    made.restore_sys_module_state()


def shown(shell: Any, source: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        shell.run_cell(source)
    return out.getvalue()


WRONG = "import torch\nx = torch.zeros(2, 3)\nx @ x"


def test_the_traceback_stays_and_the_paragraph_follows_it_until_it_is_unloaded(shell: Any) -> None:
    before = shown(shell, WRONG)
    assert "RuntimeError" in before
    assert shown(shell, "%load_ext torchcourse") == ""
    during = shown(shell, WRONG)
    head, said, rest = during.partition("torchcourse: ")
    assert said
    assert "----> 3 x @ x" in head
    assert "mat1 and mat2 shapes cannot be multiplied" in head
    assert rest.startswith("`x` has shape (2, 3), float32, on cpu.")
    assert "torchcourse: " not in shown(shell, "1 / 0")
    assert "boo" in shown(shell, "raise ValueError('boo')")
    shown(shell, "%unload_ext torchcourse")
    after = shown(shell, WRONG)
    assert "mat1 and mat2" in after
    assert "torchcourse: " not in after


def test_an_error_raised_again_has_one_paragraph(shell: Any) -> None:
    shown(shell, "%load_ext torchcourse")
    shown(shell, WRONG.replace("x @ x", "try:\n    x @ x\nexcept RuntimeError as error:\n    kept = error\nraise kept"))
    assert shown(shell, "raise kept").count("torchcourse: ") == 1


def test_who_handled_errors_before_does_so_again_after_unloading(shell: Any) -> None:
    seen: list[str] = []

    def handler(shell: Any, kind: type, error: BaseException, traceback: Any, tb_offset: Any = None) -> list[str]:
        seen.append(kind.__name__)
        return []

    shell.set_custom_exc((ZeroDivisionError,), handler)
    shown(shell, "%load_ext torchcourse")
    shown(shell, "%unload_ext torchcourse")
    shown(shell, "1 / 0")
    assert seen == ["ZeroDivisionError"]


def test_unloading_restores_the_level_of_torchs_logger(shell: Any) -> None:
    logger = logging.getLogger("torch.utils.cpp_extension")
    before = logger.level
    shown(shell, "%load_ext torchcourse")
    shown(shell, "%load_ext torchcourse")
    assert logger.level == logging.ERROR != before
    shown(shell, "%unload_ext torchcourse")
    assert logger.level == before
