"""The exercise `repaired_training`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.debugging.repaired_training import mixed, rings
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`Sequential` registers the layers, an activation stands between two of them, and there is an output for each "
    "class, since cross-entropy does not take class 2 for twice class 1. In the loop each step begins with cleared "
    "gradients, and the history holds numbers. The accuracy is measured without dropout and without a graph."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-zero-grad", "layers-not-registered", "mse-on-class-indices", "still-linear")
"""The mistakes that a check must always be able to name."""

REPAIR = "A broken loop, repaired"
Pair = tuple[Tensor, Tensor]


class Training:
    """A right training; a mistake overrides one of its methods."""

    dropout = 0.1

    def __call__(self, train: Pair, test: Pair, *, epochs: int, lr: float, seed: int) -> Any:
        self.seed(seed)
        (x, y), (test_x, test_y) = train, test
        model = self.moved(self.net(self.inputs(x), self.classes(y)), x)
        optimizer = self.optimizer(model, lr)
        history = []
        for _ in range(self.rounds(epochs)):
            model.train()
            self.clear(optimizer)
            loss = self.loss(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            history.append(self.noted(loss))
        self.before_judging(model)
        with torch.set_grad_enabled(self.graph()):
            right = self.right(model, (x, y), (test_x, test_y))
        return {"loss": self.listed(history), "accuracy": self.share(right)}

    def right(self, model: nn.Module, _train: Pair, test: Pair) -> Tensor:
        return self.predicted(model(test[0])) == test[1]

    def inputs(self, x: Tensor) -> int:
        return x.shape[1]

    def classes(self, y: Tensor) -> int:
        return int(y.max()) + 1

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def net(self, inputs: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 32), self.activation(), nn.Linear(32, 32), self.activation(),
                             nn.Dropout(self.dropout), nn.Linear(32, classes))  # fmt: skip

    def activation(self) -> nn.Module:
        return nn.ReLU()

    def moved(self, model: nn.Module, x: Tensor) -> nn.Module:
        return model.to(x.device)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr)

    def rounds(self, epochs: int) -> int:
        return epochs

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y)

    def noted(self, loss: Tensor) -> Any:
        return loss.item()

    def listed(self, history: list[Any]) -> Any:
        return history

    def before_judging(self, model: nn.Module) -> None:
        model.eval()

    def graph(self) -> bool:
        return False

    def predicted(self, out: Tensor) -> Tensor:
        return out.argmax(1)

    def share(self, right: Tensor) -> float:
        return right.float().mean().item()


def percent(_self: Training, right: Tensor) -> float:
    return 100 * right.float().mean().item()


def training(**methods: Any) -> Callable[..., Any]:
    """Return the right training with these methods in place of its own."""
    program: Callable[..., Any] = override(Training, **methods)()
    return program


class InAList(nn.Module):
    """Layers in a Python list."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layers = [nn.Linear(inputs, 32), nn.Linear(32, 32), nn.Linear(32, classes)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


class HalfInAList(InAList):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes)
        self.last = self.layers[-1]


class NotInitialised(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        self.layers = nn.ModuleList([nn.Linear(inputs, 32), nn.Linear(32, classes)])


class NotInitialisedWithAList(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        self.layers = [nn.Linear(inputs, 32), nn.Linear(32, classes)]


class Indices(Training):
    """Squared error on class indices, as the broken loop has it."""

    def net(self, inputs: int, classes: int) -> nn.Module:
        return super().net(inputs, 1)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(out.squeeze(1), y.float())

    def predicted(self, out: Tensor) -> Tensor:
        return out.squeeze(1).round()


class RateOfItsOwn(Training):
    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return super().optimizer(model, 0.02)


class OnTrainingData(Training):
    def right(self, model: nn.Module, train: Pair, test: Pair) -> Tensor:
        return super().right(model, test, train)


class OnSomeOfTheTest(Training):
    def right(self, model: nn.Module, train: Pair, test: Pair) -> Tensor:
        return super().right(model, train, (test[0][: len(test[0]) // 2], test[1][: len(test[1]) // 2]))


def of_probabilities(_self: Training, out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.softmax(1), y)


ENTRY = "The accuracy of the net is too low: {low}. "
MISTAKES = [
    Mistake("missing-zero-grad", training(clear=lambda self, optimizer: None), "The gradients at each step were "
            "{gradients}: nobody clears them between one step and the next backward. At a low learning rate the net "
            "still learns, so no curve shows it.", REPAIR),
    Mistake("layers-not-registered", training(net=lambda self, i, c: InAList(i, c)), "The call raised {call}: layers "
            "in a Python list are not registered, so there is nothing that the optimizer could hold.", REPAIR),
    Mistake("layers-not-registered", training(net=lambda self, i, c: HalfInAList(i, c)), "The optimizer does not "
            "hold {outside} of the parameters: layers in a Python list are not registered, and stay as they were "
            "drawn.",
            REPAIR),
    Mistake("missing-super-init", training(net=lambda self, i, c: NotInitialised(i, c)), "The call raised {call}: "
            "`super().__init__()` has to come first, since layers cannot be registered before it.", REPAIR),
    Mistake("missing-super-init", training(net=lambda self, i, c: NotInitialisedWithAList(i, c)), "The call raised "
            "{call}: `super().__init__()` has to come first, since layers cannot be registered before it.", REPAIR),
    Mistake("mse-on-class-indices", Indices(), ENTRY + "Either the loss is a squared error of class indices, which "
            "settles on 1 where 0 and 2 are both possible; or the net hardly learned.", REPAIR),
    Mistake("still-linear", training(activation=lambda self: nn.Identity()), ENTRY + "Either there is no activation "
            "between the linear layers, and no straight line parts rings; or the net learned too little, as with "
            "plain SGD, with few units, or with an activation after its last layer.", REPAIR),
    Mistake("judges-in-train-mode", training(before_judging=lambda self, model: None), "While the net was judged, "
            "this was active: {active}. Put the net into evaluation mode first.", REPAIR),
    Mistake("graph-while-judging", training(graph=lambda self: True), "While the net was judged, graphs were {graphs}: "
            "nothing is differentiated there, so they only cost memory.", REPAIR),
    Mistake("stores-graph", training(noted=lambda self, loss: loss), "The losses came out as {losses}: each holds the "
            "graph of its epoch. `item()` gives the number alone.", REPAIR),
    Mistake("returns-tensors", training(noted=lambda self, loss: loss.detach()), "The losses came out as {losses}, "
            "and Python floats are wanted, which `item()` gives.", REPAIR),
    Mistake("last-loss-only", training(listed=lambda self, history: history[-1]), "The losses came out as {losses}, "
            "and a list with one number for each epoch is wanted.", REPAIR),
    Mistake("one-epoch-more", training(rounds=lambda self, epochs: epochs + 1), "The losses came out as {losses}: "
            "one number for each epoch is wanted.", REPAIR),
    Mistake("accuracy-in-percent", training(share=percent), 'In the case "{case}" the accuracy does not lie between '
            "0 and 1: the share of right answers is wanted. Percentages are for people.", REPAIR),
    Mistake("not-seeded", training(seed=lambda self, seed: None), "A second run with the same seed gave {again}: the "
            "net is drawn, and so is the dropout. Seed before both.", REPAIR),
    Mistake("seed-ignored", training(seed=lambda self, seed: torch.manual_seed(0)), "Another seed gave {got}, and "
            "should give {want}: the argument `seed` has no effect.", REPAIR),
    Mistake("lr-ignored", RateOfItsOwn(), "Another `lr` gave {got}, and should give {want}: the argument `lr` has no "
            "effect.", REPAIR),
    Mistake("softmax-before-cross-entropy", training(loss=of_probabilities), "The loss was {loss}. Either a softmax "
            "stands before `F.cross_entropy`, which has one of its own, or the numbers in `loss` are not those of "
            "the training.", REPAIR),
    *(Mistake("judges-on-other-data", program, 'In the case "{case}" the accuracy is not the share that the net gets '
              "right on the test data: {told}. Either the net was judged on other data, or on a part of the test, or "
              "it has learned from the test.",
              REPAIR) for program in (OnTrainingData(), OnSomeOfTheTest())),
    Mistake("counts-distinct-labels", training(classes=lambda self, y: len(y.unique())), 'In the case "{case}" the '
            "call raised {call}: there were as many outputs as there are different labels. Go by the largest label, "
            "since a class may be missing.", REPAIR),
    Mistake("one-output-too-few", training(classes=lambda self, y: int(y.max())), 'In the case "{case}" the call '
            "raised {call}: labels count from 0, so there is one more class than the largest label says.", REPAIR),
    Mistake("three-classes-taken-for-granted", training(classes=lambda self, y: 3), "In the case \"{case}\" the call "
            "raised {call}: the largest label in `train` tells how many classes there are.", REPAIR),
    Mistake("two-features-taken-for-granted", training(inputs=lambda self, x: 2), 'In the case "{case}" the call '
            "raised {error}: `x.shape[1]` tells how many features there are.", REPAIR),
    Mistake("net-not-moved", training(moved=lambda self, model, x: model), "On the second "
            "device the call raised {error}: the net has to be where the data are.", REPAIR),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("other rings", train=rings(draw, 300), test=rings(draw, 100), epochs=160, lr=0.02, seed=draw.size(0, 999),
             good=0.8),
        case("other overlapping classes", train=mixed(draw, 280), test=mixed(draw, 220), epochs=70, lr=0.02,
             seed=draw.size(0, 999), good=0.63),
        case("five rings, five epochs", train=rings(draw, 60, 5), test=rings(draw, 9, 5), epochs=5, lr=0.01,
             seed=draw.size(0, 999), good=0.0),
    ]  # fmt: skip


# Right answers unlike the reference


def train_in_batches(train: Pair, test: Pair, *, epochs: int, lr: float, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    x, y = train
    layers = nn.ModuleList([nn.Linear(x.shape[1], 24), nn.Linear(24, 24), nn.Linear(24, int(y.max()) + 1)]).to(x.device)

    def net(x: Tensor) -> Tensor:
        for layer in layers[:-1]:
            x = layer(x).tanh()
        out: Tensor = layers[-1](x)
        return out

    optimizer, losses = torch.optim.AdamW(layers.parameters(), lr), []
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x), device="cpu").to(x.device).chunk(4):
            optimizer.zero_grad()
            loss = F.nll_loss(F.log_softmax(net(x[rows]), dim=-1), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(layers.parameters(), 5.0)
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / len(x))
    with torch.no_grad():
        hits = (net(test[0]).argmax(-1) == test[1]).sum().item()
    return {"loss": losses, "accuracy": hits / len(test[1])}


class WithNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 48), nn.BatchNorm1d(48), nn.GELU())
        self.head = nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, outputs))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def train_with_a_norm(train: Pair, test: Pair, *, epochs: int, lr: float, seed: int) -> dict[str, Any]:
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    x, y = train
    model = WithNorm(x.size(-1), int(torch.cat([y, test[1]]).max()) + 1).to(device=x.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=10 * lr, momentum=0.9)
    record: list[Tensor] = []
    for _ in range(epochs):
        loss = F.cross_entropy(model.train()(x), y)
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        record.append(loss.detach())
    torch.set_rng_state(generator_state)
    with torch.no_grad():
        scores = model.eval()(test[0]).softmax(1)
    return {"loss": [float(v) for v in record], "accuracy": float((scores.max(1).indices == test[1]).float().mean())}


RIGHT_ANSWERS: list[Callable[..., Any]] = [train_in_batches, train_with_a_norm]
