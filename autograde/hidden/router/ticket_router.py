"""The exercise `TicketRouter`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autograde.hidden.router.right_routers import ByHand, WithAFirstToken
from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.ticket_router import sized
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The mask is used twice: attention ignores padded keys, and the mean counts real words only. Positions are looked "
    "up on the device of the ids, for as many words as there are. The head stands alone at the end and gives logits, "
    "so that it can be replaced, and a loss takes them as they are."
)
"""Why the reference is written as it is."""
REQUIRED = ("pools-padding", "attends-to-padding", "no-positions", "softmax-in-forward")
"""The mistakes that a check must always be able to name."""


class Router(nn.Module):
    """A right router; a mistake overrides one of its methods."""

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(self.layer(dim, heads) for _ in range(self.depth(layers)))
        self.make_head(dim, num_classes)

    def layer(self, dim: int, heads: int) -> nn.Module:
        return nn.TransformerEncoderLayer(dim, heads, 2 * dim, batch_first=True, norm_first=True)

    def depth(self, layers: int) -> int:
        return layers

    def make_head(self, dim: int, num_classes: int) -> None:
        self.head = nn.Linear(dim, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.embedded(input_ids)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=self.ignored(attention_mask))
        return self.after(self.head(self.pooled(x, attention_mask)))

    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return made

    def ignored(self, mask: Tensor) -> Tensor | None:
        return ~mask

    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def after(self, logits: Tensor) -> Any:
        return logits


class PositionsFromOne(Router):
    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids) + self.places(torch.arange(1, ids.shape[1] + 1, device=ids.device))
        return made


class PoolsPadding(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.mean(1)


class PoolsTheLast(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return x[:, -1]


class PoolsTheLastOfTheLongest(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return x[:, int(mask.sum(1).max()) - 1]


class DividesByTheLongest(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x * mask[..., None]).sum(1) / mask.sum(1).max()


class DividesByTheLength(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x * mask[..., None]).mean(1)


class AttendsToPadding(Router):
    def ignored(self, mask: Tensor) -> Tensor | None:
        return None


class AttendsAndPools(PoolsPadding):
    def ignored(self, mask: Tensor) -> Tensor | None:
        return None


class AttendsFromTheFirst(AttendsToPadding):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return x[:, 0]


class Inverted(Router):
    def ignored(self, mask: Tensor) -> Tensor | None:
        return mask


class NoPositions(Router):
    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids)
        return made


class OnePosition(Router):
    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids) + self.places(torch.zeros_like(ids))
        return made


class Softmax(Router):
    def after(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)


class SoftmaxAttendsToPadding(Softmax, AttendsToPadding):
    pass


class LogSoftmax(Router):
    def after(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(-1)


class Sigmoid(Router):
    def after(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()


class Relu(Router):
    def after(self, logits: Tensor) -> Tensor:
        return logits.relu()


class Predictions(Router):
    def after(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)


class BatchFirstForgotten(Router):
    def layer(self, dim: int, heads: int) -> nn.Module:
        return nn.TransformerEncoderLayer(dim, heads, 2 * dim, norm_first=True)

    def ignored(self, mask: Tensor) -> Tensor | None:
        return None


class NormOverTheBatch(Router):
    def make_head(self, dim: int, num_classes: int) -> None:
        super().make_head(dim, num_classes)
        self.norm = nn.BatchNorm1d(dim)

    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        normed: Tensor = self.norm(super().pooled(x, mask))
        return normed


class PositionsOnTheCPU(Router):
    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return made


class FixedDepth(Router):
    def depth(self, layers: int) -> int:
        return 2


class FixedSizes(Router):
    fixed: ClassVar[dict[str, int]] = {}

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        sizes = {"dim": dim, "heads": heads, "layers": layers, "max_len": max_len}
        super().__init__(vocab_size, num_classes, **{**sizes, **self.fixed})


class FixedPlaces(FixedSizes):
    fixed: ClassVar = {"max_len": 64}


class FixedWidth(FixedSizes):
    fixed: ClassVar = {"dim": 48}


class OneHead(FixedSizes):
    fixed: ClassVar = {"heads": 1}


class PlacesOfAllRouters(Router):
    tables: ClassVar[dict[tuple[int, int], nn.Embedding]] = {}

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__(vocab_size, num_classes, dim, heads, layers, max_len)
        self.places = self.tables.setdefault((max_len, dim), self.places)


class Detached(Router):
    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().pooled(x, mask).detach()


class SharedLayer(Router):
    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__(vocab_size, num_classes, dim, heads, layers, max_len)
        self.layers = nn.ModuleList([self.layers[0]] * layers)


class GatesByPosition(Router):
    def embedded(self, ids: Tensor) -> Tensor:
        made: Tensor = self.words(ids) * (1 + self.places(torch.arange(ids.shape[1], device=ids.device)).tanh())
        return made


class LayersForNothing(GatesByPosition):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = y = self.embedded(input_ids)
        for layer in self.layers:
            y = layer(y, src_key_padding_mask=self.ignored(attention_mask))
        return self.after(self.head(self.pooled(x + 0 * y, attention_mask)))


class LayersNotCalled(GatesByPosition):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.after(self.head(self.pooled(self.embedded(input_ids), attention_mask)))


class HeadOfAnotherName(Router):
    def make_head(self, dim: int, num_classes: int) -> None:
        self.classifier = nn.Linear(dim, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.embedded(input_ids)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=self.ignored(attention_mask))
        return self.classifier(self.pooled(x, attention_mask))


class HeadInASequence(Router):
    def make_head(self, dim: int, num_classes: int) -> None:
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(dim, num_classes))  # type: ignore[assignment]


class Encoder(Router):
    """As PyTorch puts layers together: in a `TransformerEncoder`."""

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__(vocab_size, num_classes, dim, heads, layers, max_len)
        del self.layers
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.encoder(self.embedded(input_ids), src_key_padding_mask=self.ignored(attention_mask))
        return self.head(self.pooled(x, attention_mask))


class Unbegun(nn.Module):
    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        self.words = nn.Embedding(vocab_size, dim)


ROUTER = "The router"
PAD = 'In the case "{case}" `{what}` {got}: '
OUT = 'In the case "{case}", with a head whose weight is zero, the output at {at} is {got_at} and should be {want_at}: '
HEAD = "`head` is {head} where {want_head} is wanted: "
POOLED = PAD + "padding is counted where the words are put together. Sum the real words, and divide by their number."
ATTENDED = (
    PAD + "real words attend to padding, or a maximum includes it. `src_key_padding_mask` is True where a key is to be "
    "ignored."
)
PLACES = PAD + "without positions, a ticket is a bag of words, and `refund the card` is `card the refund`."
MISTAKES = [
    Mistake("pools-padding", PoolsPadding, POOLED, ROUTER),
    Mistake("pools-padding", PoolsTheLast, PAD + "the last place was taken, which is padding for most tickets.",
            ROUTER),
    Mistake("pools-padding", DividesByTheLength, PAD + "the amount of padding makes a difference. Either the sum was "
            "divided by the width of the batch, or attention or the positions depend on it.", ROUTER),
    *(Mistake("goes-by-the-longest", program, PAD + "the result for a ticket depends on the longest one in its batch. "
            "Use its own length.", ROUTER) for program in (PoolsTheLastOfTheLongest, DividesByTheLongest)),
    Mistake("attends-to-padding", AttendsToPadding, ATTENDED, ROUTER),
    Mistake("attends-to-padding", AttendsAndPools, ATTENDED + " And the mean runs over the padding, too.", ROUTER),
    Mistake("attends-to-padding", SoftmaxAttendsToPadding, ATTENDED + " And a softmax stands after the head.",
            ROUTER),
    Mistake("attends-to-padding", AttendsFromTheFirst, ATTENDED, ROUTER),
    Mistake("attends-to-padding", Inverted, PAD + "attention looks at nothing but padding. `src_key_padding_mask` is "
            "True where a key is to be ignored, and your mask where a word is real.", ROUTER),
    Mistake("no-positions", NoPositions, PLACES, ROUTER),
    Mistake("no-positions", OnePosition, PLACES + " Here all words have the same position.", ROUTER),
    Mistake("positions-from-one", PositionsFromOne, "For a ticket of max_len words the model raised {longest}: "
            "positions count from 0, and a table of max_len rows ends at max_len - 1.", ROUTER),
    Mistake("softmax-in-forward", Softmax, OUT + "a softmax stands after the head, and the loss applies another one.",
            ROUTER),
    Mistake("softmax-in-forward", LogSoftmax, OUT + "a log-softmax stands after the head. The loss takes logits.",
            ROUTER),
    Mistake("sigmoid-in-forward", Sigmoid, OUT + "a sigmoid stands after the head.", ROUTER),
    Mistake("relu-after-head", Relu, OUT + "a ReLU after the head makes all negative logits equal.", ROUTER),
    Mistake("returns-predictions", Predictions, "The result has shape {got} where {want} is wanted: logits are asked "
            "for, not the classes that they favour.", ROUTER),
    Mistake("batch-first-forgotten", BatchFirstForgotten, PAD + "without `batch_first=True` the layer takes tickets "
            "for positions, and each ticket attends to the others.", ROUTER),
    Mistake("norm-over-the-batch", NormOverTheBatch, PAD + "a batch norm mixes the tickets of a batch.", ROUTER),
    Mistake("made-on-cpu", PositionsOnTheCPU, "On the second device the call raised {got}: "
            "the positions were made on the CPU.", ROUTER),
    Mistake("ignores-layers", FixedDepth, "For the sizes in {sizes}, a router with one layer more has {got} where "
            "{want} are wanted: `layers` has no effect.", ROUTER),
    Mistake("ignores-layers", SharedLayer, "For the sizes in {sizes}, a router with one layer more has {got} where "
            "{want} are wanted: it is the same layer several times.", ROUTER),
    Mistake("ignores-max-len", FixedPlaces, "For a ticket of max_len words and the sizes in {sizes} the model raised "
            "{longest}: `max_len` says how many positions there are.", ROUTER),
    Mistake("ignores-dim", FixedWidth, "For the sizes in {sizes}, with a larger `dim` there are {got} where {want} are "
            "wanted: `dim` has no effect.", ROUTER),
    Mistake("ignores-heads", OneHead, "For the sizes in {sizes} there are layers with other numbers of heads: {heads}. "
            "`heads` has no effect on them.", ROUTER),
    Mistake("shares-parameters", PlacesOfAllRouters, "{shared} of the parameters belong to another router as well: "
            "what one of them learns would change the other. Make all layers in `__init__`, anew.", ROUTER),
    Mistake("cuts-the-gradient", Detached, "Parameters that a backward from the logits does not reach: {idle}. "
            "Something on the way cuts the gradient, such as `detach()`, or their layers are never used.", ROUTER),
    *(Mistake("words-do-not-read-each-other", program, PAD + "each word counts for itself, whatever stands beside it. "
              "Either the layers have no attention, or what they make of the words does not reach the head.", ROUTER)
      for program in (LayersForNothing, LayersNotCalled)),
    Mistake("no-head", HeadOfAnotherName, "`head` is missing where {want_head} is wanted: other exercises look for the "
            "last layer under this name.", ROUTER),
    Mistake("head-in-a-sequence", HeadInASequence, HEAD + "the linear layer itself is asked for, since it will be "
            "replaced.", ROUTER),
    Mistake("no-list-of-layers", Encoder, "`layers` is {held} where {want_held} is wanted: a later exercise gives each "
            "layer a learning rate, and looks for them there.", ROUTER),
    Mistake("missing-super-init", Unbegun, "Building the module raised {construction}: `super().__init__()` has to run "
            "before any layer is assigned.", ROUTER),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        sized(draw, "wide and shallow", [6, 6, 1, 2], 6, vocab_size=40, num_classes=2, dim=24, heads=3, layers=1,
              max_len=16),
        sized(draw, "three layers", [draw.size(3, 7), 7], 7, vocab_size=30, num_classes=7, layers=3),
    ]  # fmt: skip


RIGHT_ANSWERS: list[Callable[..., Any]] = [WithAFirstToken, ByHand]
