"""The exercise `generate`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse import simulated
from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind, where

NEITHER, TRAINING, EVALUATION = "no call of the model", "training mode", "evaluation mode"


class Speaker(nn.Module):
    """A language model of two tables: scores by the last token, and what earlier ones add; reversed in training.

    Args:
        near, far: the tables.
        learned: whether they are parameters.
    """

    def __init__(self, near: Tensor, far: Tensor, learned: bool) -> None:
        super().__init__()
        self.near, self.far = (nn.Parameter(table) if learned else nn.Buffer(table) for table in (near, far))
        self.noisy, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5)
        self.modes_seen: list[str] = []
        self.graph = False

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores `(b, t, vocab)`."""
        self.modes_seen.append(TRAINING if self.training or self.noisy.training else EVALUATION)
        scores = self.near[ids] + self.far[ids].cumsum(1)
        self.graph = self.graph or scores.requires_grad
        return scores.flip(-1) if self.training else scores

    def modes(self) -> list[bool]:
        """Return the mode of each submodule."""
        return [module.training for module in self.modules()]


def probe(
    answer: Watched,
    near: Tensor,
    far: Tensor,
    ids: Tensor,
    max_new: int,
    options: dict[str, Any],
    seed: int | None = None,
    training: bool = True,
    learned: bool = True,
) -> Observations:
    """Observe the text, or what share each token has if it is drawn, and what has become of modes and random state."""
    model, before, state = Speaker(near, far, learned), ids.clone(), torch.get_rng_state()
    model.train(training).frozen.eval()
    modes = model.modes()

    made = {} if seed is None else {"generator": generator_on(ids.device, seed)}

    def run(**made: Any) -> Any:
        return answer(model, ids, max_new=max_new, **options, **made)

    recording = torch.is_grad_enabled()
    text = run(**made)
    after = torch.is_grad_enabled()
    torch.set_grad_enabled(recording)
    if not isinstance(text, Tensor) or text.ndim != 2 or text.shape[0] != ids.shape[0]:
        return {"returned": kind(text)}
    seen: Observations = {"device": where(text, ids), **told(text, ids, max_new, options)}
    seen["graph"] = "built" if model.graph else "none"
    seen["grad mode afterwards"] = "as before" if after == recording else "switched off"
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    seen["parameters that no longer require gradients"] = frozen
    seen["the model ran in"] = sorted(set(model.modes_seen)) or [NEITHER]
    seen["modes afterwards"] = "as before" if model.modes() == modes else model.modes()
    if seed is not None:
        same = torch.equal(torch.get_rng_state(), state)
        seen["the global random state"] = "as before" if same else "changed"
        again = run(generator=generator_on(ids.device, seed))
        seen["the same seed again"] = "the same text" if torch.equal(text, again) else "another text"
        if "shares" in seen:
            again = run(**made)
            seen["the same generator goes on"] = (
                "with the same text" if torch.equal(text, again) else "with another text"
            )
    return {**seen, **kept(ids=(ids, before))}


def generator_on(device: torch.device, seed: int) -> torch.Generator:
    """Return a seeded generator for this device, also for the simulated one."""
    ours = device.type == simulated.NAME
    with simulated.as_accelerator() if ours else contextlib.nullcontext():
        return torch.Generator(device=device).manual_seed(seed)


def told(text: Tensor, ids: Tensor, max_new: int, options: dict[str, Any]) -> Observations:
    """Return the text if it is greedy, else the share of each token and which tokens occur.

    An answer may stop once every row has its end token: what it leaves out is filled in.
    """
    missing = ids.shape[1] + max_new - text.shape[1]
    if missing > 0 and options.get("eos") is not None and bool((text[:, -1] == options["eos"]).all()):
        text = torch.cat([text, text.new_full((len(text), missing), options["eos"])], dim=1)
    if options.get("temperature") == 0 or options.get("top_k") == 1:
        return {"text": text}
    new = text[:, ids.shape[1] :].flatten()
    counts = torch.bincount(new.cpu(), minlength=1)
    twice = (
        {"rows with the same token twice": (text[:, -1] == text[:, -2]).double().mean().item()} if max_new == 2 else {}
    )
    return twice | {
        "shape": tuple(text.shape),
        "prompt": "kept" if torch.equal(text[:, : ids.shape[1]], ids) else "changed",
        "shares": (counts / counts.sum()).tolist(),
        "tokens": (counts > 0).nonzero().flatten().tolist(),
    }


def tables(draw: Draw, vocabulary: int) -> dict[str, Any]:
    """Draw a model in which the next token is most often the next number."""
    near = 0.3 * draw.normal(vocabulary, vocabulary)
    near += 4 * torch.eye(vocabulary).roll(1, 1)
    return {"near": near, "far": 0.15 * draw.normal(vocabulary, vocabulary)}


def greedy(draw: Draw, name: str, ids: list[list[int]], max_new: int, **options: Any) -> Case:
    """Return the case of a text of which every token is decided."""
    options = {"temperature": 0.0} | options
    return case(name, **tables(draw, 7), ids=torch.tensor(ids), max_new=max_new, options=options)


def from_drawn_tables(draw: Draw, name: str, rows: int, max_new: int, t: int = 4, **more: Any) -> Case:
    """Return the case of a greedy text in which every earlier token has its say."""
    near, far, ids = draw.normal(6, 6), draw.normal(6, 6), draw.integers(0, 6, rows, t)
    return case(name, near=near, far=far, ids=ids, max_new=max_new, options={"temperature": 0.0}, **more)


def sampled(draw: Draw, name: str, max_new: int = 1, rows: int = 3000, near_by: float = 0.045, **options: Any) -> Case:
    """Return the case of a token drawn for many rows; the shares have to come as near the probabilities as that."""
    scores = torch.tensor([1.6, 1.0, 0.4, -0.2, -1.2])[torch.tensor([int(i) for i in shuffled(draw, 5)])]
    near, far = scores.expand(5, 5).clone(), torch.zeros(5, 5)
    ids = torch.full((rows, 2), draw.size(0, 4))
    return case(
        name,
        atol=near_by,
        rtol=0,
        near=near,
        far=far,
        ids=ids,
        max_new=max_new,
        options=options,
        seed=draw.size(0, 999),
    )


def two_kinds_of_rows(draw: Draw, name: str) -> Case:
    """Return the case of rows whose scores lie far apart: for half of them all are above all those of the others."""
    drawn = sampled(draw, name, top_k=2).inputs
    ids = torch.zeros(3000, 2, dtype=torch.int64)
    ids[1500:] = 1
    return case(name, atol=0.045, rtol=0, **drawn | {"near": drawn["near"] - 9 * torch.eye(5)[0][:, None], "ids": ids})


def ending(draw: Draw, name: str) -> Case:
    """Return the case of two tokens drawn by a model that repeats none: only an end token comes twice in a row."""
    drawn = sampled(draw, name, max_new=2).inputs
    near = drawn["near"] - 30 * torch.eye(5)
    likely = 1 + int(near[drawn["ids"][0, -1], 1:].argmax())
    return case(name, atol=0.045, rtol=0, **drawn | {"near": near, "options": {"eos": likely}})


def shuffled(draw: Draw, count: int) -> Tensor:
    """Return the numbers below `count` in a drawn order."""
    return draw.uniform(0, 1, count).argsort()


def cases(draw: Draw) -> list[Case]:
    return [
        greedy(draw, "greedy", [[0, 3], [4, 1], [2, 2]], 4),
        from_drawn_tables(draw, "greedy, by all earlier tokens", 3, 5),
        from_drawn_tables(draw, "greedy, after a long prompt", 4, 4, t=draw.size(70, 80)),
        from_drawn_tables(draw, "a model in evaluation mode", 2, 2, training=False),
        from_drawn_tables(draw, "a model without parameters", 2, 2, learned=False),
        greedy(draw, "one token, greedy", [[5, 1, 3]], 1),
        greedy(draw, "rows that end at different times", [[0, 1], [0, 3], [6, 0]], 5, eos=4),
        greedy(draw, "every row ends early", [[0, 3], [1, 2]], 6, eos=4),
        greedy(draw, "an end token of 0", [[1, 3], [2, 6]], 7, eos=0),
        greedy(draw, "an end token in the prompt", [[4, 1], [1, 4]], 4, eos=4),
        greedy(draw, "top 1", [[0, 2], [1, 5]], 3, temperature=1.0, top_k=1),
        greedy(draw, "nothing to add", [[0, 2]], 0),
        sampled(draw, "drawn at temperature 1"),
        sampled(draw, "two tokens drawn", max_new=2),
        sampled(draw, "drawn at temperature 0.5", temperature=0.5, rows=30000, near_by=0.015),
        sampled(draw, "drawn at temperature 3", temperature=3.0),
        sampled(draw, "drawn from the top 2", top_k=2),
        sampled(draw, "top_k above the vocabulary", top_k=50),
        two_kinds_of_rows(draw, "drawn from the top 2, with low scores in half of the rows"),
        ending(draw, "two tokens drawn, with an end token"),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"prompt": inputs["ids"][0].tolist() if len(inputs["ids"]) < 9 else "many rows"}
    for field, name in (("modes", "modes afterwards"), ("tokens", "tokens"), ("state", "the global random state")):
        fields |= {field: seen[name]} if name in seen else {}
    if "the model ran in" in seen:
        fields["ran"] = " and in ".join(seen["the model ran in"])
    if isinstance(seen.get("text"), Tensor) and isinstance(wanted.get("text"), Tensor):
        rows = [i for i, row in enumerate(wanted["text"].tolist()) if row != rows_of(seen["text"], i)]
        row = rows[0] if rows else 0
        fields |= {"row": str(rows_of(seen["text"], row)), "want_row": str(wanted["text"][row].tolist())}
    if "shares" in seen and "shares" in wanted:
        fields |= {"shares": rounded(seen["shares"]), "want_shares": rounded(wanted["shares"])}
    return fields


def rows_of(text: Tensor, row: int) -> list[int]:
    return text[row].tolist() if row < len(text) else []


def rounded(shares: list[float]) -> list[float]:
    return [round(share, 2) for share in shares]


EXERCISE = Exercise(
    "generate",
    probe,
    cases,
    hints=(
        "The model scores a next token at every position. Which position's scores decide about the token that you "
        "append, and what do you feed in for the token after that?",
        "Before the softmax: what does a division by a small number do to the distances between scores, and how do you "
        "find the smallest score that still belongs to the k largest? Zero is a case of its own.",
        "Keep one bool for each row: has it written its end token by now? And before you call `eval()`, note the mode "
        "of every module in `model.modules()`; one flag for the whole model is not enough if a part of it was frozen.",
    ),
    quotes=quotes,
)
