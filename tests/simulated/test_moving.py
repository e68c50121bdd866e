"""Modules, checkpoints and copies across the border."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from torchcourse.simulated import NAME, counters, shares_memory, values


class Tied(nn.Module):
    """Two layers with one weight, a buffer that is saved and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.mean = nn.Buffer(torch.ones(4))
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x - self.mean)) + self.table


def test_moving_a_module_keeps_its_parameter_objects_and_it_trains_there(device: torch.device) -> None:
    model = Tied()
    before = list(model.parameters())
    for place in (device, torch.device("cpu"), torch.device(NAME, 0)):
        model.to(place)
        after = list(model.parameters())
        assert all(a is b for a, b in zip(before, after, strict=True))
        assert all(isinstance(p, nn.Parameter) and p.is_leaf and p.requires_grad for p in after)
        assert model.a.weight is model.b.weight
        model(torch.ones(2, 4, device=place)).sum().backward()
        assert {t.device for t in (*after, *model.buffers(), *(p.grad for p in after))} == {place}
    assert list(model.state_dict()) == ["mean", "a.weight", "a.bias", "b.weight", "b.bias"]


def test_moving_carries_gradients_hooks_and_attributes(device: torch.device) -> None:
    layer = nn.Linear(2, 2)
    calls = []
    layer.weight.decays = True  # type: ignore[attr-defined]
    layer.weight.register_hook(lambda _: calls.append("hook"))
    layer.weight.register_post_accumulate_grad_hook(lambda p: calls.append(type(p).__name__))
    layer(torch.ones(1, 2)).sum().backward()
    wanted = layer.weight.grad
    calls.clear()
    layer.to(device)
    assert layer.weight.decays  # type: ignore[attr-defined]
    assert layer.weight.grad is not None
    assert layer.weight.grad.device == device
    assert values(layer.weight.grad).equal(wanted)
    layer(torch.ones(1, 2, device=device)).sum().backward()
    assert len(calls) == 2
    assert values(layer.weight.grad).equal(2 * wanted)


def test_a_module_moves_while_views_and_weak_references_live(device: torch.device) -> None:
    layer = nn.Linear(2, 2)
    view, reference, state = layer.weight.view(-1), weakref.ref(layer.weight), layer.state_dict()
    out = layer(torch.ones(1, 2)).sum()
    layer.to(device)
    assert reference() is layer.weight
    assert view.device.type == "cpu" == state["weight"].device.type
    with pytest.raises(RuntimeError, match="moved to another device between forward and backward"):
        out.backward()


def test_modules_that_stay_on_the_cpu_convert_as_ever() -> None:
    layer = nn.Linear(2, 2)
    before, view, reference = layer.weight, layer.weight.view(-1), weakref.ref(layer.weight)
    assert layer.double().weight is before is reference()
    assert view.dtype == torch.float32
    assert not torch.__future__.get_swap_module_params_on_conversion()
    layer.load_state_dict(nn.Linear(2, 2).state_dict())


def test_modules_on_the_device_change_dtype_there(device: torch.device) -> None:
    layer = nn.Linear(2, 2).to(device)
    before = layer.weight
    layer.half()
    assert layer.weight is before
    assert values(layer.weight).dtype == torch.float16
    result = layer(torch.ones(1, 2, device=device, dtype=torch.float16))
    assert (result.dtype, result.device) == (torch.float16, device)


def test_modules_can_be_made_on_the_device(device: torch.device) -> None:
    def scoped() -> nn.Linear:
        with device:
            return nn.Linear(3, 3)

    layers = []
    for make in (lambda: nn.Linear(3, 3), lambda: nn.Linear(3, 3, device=NAME), scoped):
        torch.manual_seed(0)
        layers.append(make())
    cpu, *ours = layers
    ours.append(nn.Linear(3, 3, device="meta").to_empty(device=NAME))
    ours[-1].load_state_dict(cpu.state_dict())
    for layer in ours:
        assert layer.weight.device == device
        assert values(layer.weight).equal(cpu.weight)


def test_state_dicts_load_across_devices(device: torch.device) -> None:
    cpu, ours = Tied(), Tied().to(device)
    ours.load_state_dict(cpu.state_dict())
    assert values(ours.a.weight).equal(cpu.a.weight)
    assert ours.a.weight.device == device
    other = Tied()
    other.load_state_dict(ours.state_dict())
    assert other.a.weight.equal(cpu.a.weight)
    assigned = Tied()
    assigned.load_state_dict(ours.state_dict(), assign=True)
    assert assigned.a.weight.device == device
    assert isinstance(assigned.a.weight, nn.Parameter)


def saved(obj: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_remember_the_device(weights_only: bool, device: torch.device) -> None:
    x = torch.arange(6.0, device=device).view(2, 3)
    state = {
        "x": x, "row": x[1], "t": x.T, "half": x.bfloat16(), "ids": x.long(), "p": nn.Parameter(x.clone()),
        "conj": torch.view_as_complex(x.clone().view(3, 2)).conj(), "empty": x[:0], "bits": x.to(torch.uint16),
    }  # fmt: skip
    loaded = torch.load(saved(state), weights_only=weights_only)
    for name, t in state.items():
        assert (loaded[name].device, loaded[name].dtype, loaded[name].shape) == (device, t.dtype, t.shape)
        assert values(loaded[name].detach()).equal(values(t.detach()))
        assert loaded[name].stride() == t.stride() or t.numel() == 0
    assert shares_memory(loaded["x"], loaded["row"])
    assert isinstance(loaded["p"], nn.Parameter)
    assert loaded["p"].requires_grad


def test_map_location_leads_across_the_border(device: torch.device, tmp_path: Path) -> None:
    ours, cpu = {"x": torch.ones(3, device=device)}, {"x": torch.ones(3)}
    to_cpu = torch.load(saved(ours), map_location="cpu")["x"]
    assert (type(to_cpu), to_cpu.device.type) == (torch.Tensor, "cpu")
    assert torch.load(saved(cpu), map_location=NAME)["x"].device == device
    assert torch.load(saved(cpu), map_location=device)["x"].device == device
    assert torch.load(saved(ours), map_location=lambda storage, _: storage)["x"].device.type == "cpu"
    assert torch.load(saved(cpu))["x"].device.type == "cpu"
    torch.save(ours, tmp_path / "file", _use_new_zipfile_serialization=False)
    assert torch.load(tmp_path / "file")["x"].tolist() == [1, 1, 1]


def test_an_optimizer_state_resumes_on_the_device(device: torch.device) -> None:
    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(3, 2, device=device)).square().sum().backward()
        optimizer.step()

    model = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    step()
    state = saved([model.state_dict(), optimizer.state_dict()])
    step()
    wanted = values(model.weight).clone()
    for part, loaded in zip((model, optimizer), torch.load(state, map_location="cpu"), strict=True):
        part.load_state_dict(loaded)
    step()
    assert values(model.weight).equal(wanted)


def test_copies_are_independent_and_keep_ties(device: torch.device) -> None:
    model = Tied().to(device)
    model(torch.ones(1, 4, device=device)).sum().backward()
    twin = copy.deepcopy(model)
    assert twin.a.weight is twin.b.weight
    assert isinstance(twin.a.weight, nn.Parameter)
    assert twin.a.weight.device == device
    assert not shares_memory(twin.a.weight, model.a.weight)
    assert values(twin.a.weight).equal(values(model.a.weight))
    assert values(twin.a.weight.grad).equal(values(model.a.weight.grad))
    x = torch.arange(4.0, device=device)
    base, view = copy.deepcopy([x, x[1:]])
    base[1] = 9
    assert view[0].item() == 9
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(model.a.weight * 2)


def test_pickle_goes_round(device: torch.device) -> None:
    x = torch.arange(6.0, device=device).view(2, 3).T.requires_grad_()
    again = pickle.loads(pickle.dumps(x))
    assert (again.device, again.stride(), again.requires_grad) == (device, x.stride(), True)
    assert values(again.detach()).equal(values(x.detach()))
    layer = pickle.loads(pickle.dumps(nn.Linear(2, 2).to(device)))
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.device == device


def test_copies_of_modules_give_their_memory_back(device: torch.device) -> None:
    gc.collect()
    before = counters().allocated_bytes
    model = nn.Linear(64, 64).to(device)
    twin = copy.deepcopy(model)
    assert counters().allocated_bytes - before == 2 * 4 * (64 * 64 + 64)
    model.cpu()
    del twin
    gc.collect()
    assert counters().allocated_bytes == before


def test_printing_names_the_device(device: torch.device) -> None:
    x = torch.tensor([1.0, 2.5], device=device)
    assert repr(x) == "tensor([1.0000, 2.5000], device='simgpu:0')"
    assert repr(x.half()) == "tensor([1.0000, 2.5000], device='simgpu:0', dtype=torch.float16)"
    assert repr(x.requires_grad_()) == "tensor([1.0000, 2.5000], device='simgpu:0', requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 5.], device='simgpu:0', grad_fn=<MulBackward0>)"
    assert repr(nn.Parameter(x)).startswith("Parameter containing:\ntensor([1.0000, 2.5000], device='simgpu:0', req")
    assert repr(torch.empty(0, 3, device=device)) == "tensor([], device='simgpu:0', size=(0, 3))"
    assert f"{x.sum():.2f}" == "3.50"
    assert str(x.long()) == "tensor([1, 2], device='simgpu:0')"
    with pytest.raises(TypeError, match="format"):
        f"{x:.2f}"


def test_a_parameter_may_be_given_data_of_the_other_side(device: torch.device) -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for place in (device, torch.device("cpu")):
        for p in layer.parameters():
            p.data = p.data.to(place)
        assert {p.device for p in layer.parameters()} == {place}
        before = values(layer.weight.detach()).clone()
        optimizer.zero_grad()
        layer(torch.ones(2, 4, device=place)).sum().backward()
        optimizer.step()
        assert not values(layer.weight.detach()).equal(before)


def test_lazy_modules_are_refused_before_they_have_a_shape(device: torch.device) -> None:
    lazy = nn.LazyLinear(2)
    with pytest.raises(NotImplementedError, match="run it once on the CPU"):
        lazy.to(device)
    lazy(torch.ones(1, 3))
    assert lazy.to(device)(torch.ones(1, 3, device=device)).shape == (1, 2)


def test_a_tensor_is_made_of_scalars_on_the_device() -> None:
    a = torch.arange(3.0, device=NAME)
    assert torch.tensor([a[2], a[1]], device=NAME).tolist() == [2.0, 1.0]
    assert torch.tensor([a[2], 5.0]).tolist() == [2.0, 5.0]
    assert counters().copies_to_host >= 3
