"""The exercise `generate`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.architectures.careless_writers import (
    AsksTheFirstParameter,
    CopiesTheGenerator,
    EndsIfGreedy,
    FreezesTheModel,
    LastEight,
    LastFortyEight,
    OneNoiseForAllSteps,
    SwitchesGradOff,
)
from autograde.hidden.architectures.writers import (
    AlwaysGreedy,
    BuildsGraph,
    DividesByZero,
    EndOfZeroIsNone,
    EvenShares,
    FillsWithZero,
    FirstPosition,
    FlagsOnTheCPU,
    ForgetsEverything,
    GlobalGenerator,
    GoesOn,
    GoesOnAndOn,
    HeatsProbabilities,
    IgnoresTemperature,
    IgnoresTopK,
    KeepsTheSmallest,
    LastOfPromptCounts,
    LastTokenEnds,
    LastTokenOnly,
    LengthInAll,
    LosesTheBest,
    MeanOfPositions,
    Multiplies,
    NewOnly,
    OneFlag,
    OneForAll,
    OneLimitForAllRows,
    OneTooMany,
    OverTheBatch,
    PlacesForTokens,
    PromptCounts,
    SecondLastPosition,
    StaysInEval,
    StaysInEvalGoesOn,
    StopsAtTheFirst,
    StopsWhenAllAreEndedNow,
    StopsWithTheFirstRow,
    TopKOfAnySize,
    TrainAfterwards,
    TrainMode,
    TrainModeGoesOn,
    TrainModeWithGraph,
    WritesIntoThePrompt,
    ZeroForTheRest,
)
from autograde.hidden.common import MIXED
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.generate import from_drawn_tables, greedy, sampled, shuffled, tables
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Every row keeps a flag of its own, so one that has ended does not stop the others. Modes are noted module by "
    "module, since a part may have been frozen in eval mode, and given back in a `finally`. Scores that are not among "
    "the top k become minus infinity before the softmax, which then needs no repair."
)
"""Why the reference is written as it is."""
REQUIRED = ("temperature-multiplies", "reads-first-position", "eos-stops-whole-batch", "train-mode")
"""The mistakes that a check must always be able to name."""

WRITES = "A model that writes"


TEXT = 'In the case "{case}" a row is {row} and should be {want_row}: '
SHARES = 'In the case "{case}" the tokens have the shares {shares} where {want_shares} are wanted: '
IS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MODES = "The `training` flags of the model's parts were {modes} after the call and should be as before: "
EVEN = (
    SHARES + "all tokens came equally often; each row is drawn from the softmax over the vocabulary, the last "
    "dimension."
)
RAN = "The model ran in {ran}: there, dropout and batch norm disturb what is chosen. "
MISTAKES = [
    Mistake("temperature-multiplies", Multiplies(), SHARES + "the scores have to be divided by the temperature, so "
            "that a low one makes likely tokens likelier.", WRITES),
    Mistake("temperature-ignored", IgnoresTemperature(), SHARES + "the temperature has no effect.", WRITES),
    Mistake("temperature-after-softmax", HeatsProbabilities(), SHARES + "they lie too close together. Divide the "
            "scores by the temperature first, and then take one softmax.", WRITES),
    Mistake("divides-by-zero", DividesByZero(), 'In the case "{case}" the call raised {error}: a temperature of 0 '
            "means the largest score, and is a case of its own.", WRITES),
    Mistake("always-greedy", AlwaysGreedy(), SHARES + "the token with the largest score was taken each time; unless "
            "the temperature is 0, a token has to be drawn.", WRITES),
    Mistake("reads-first-position", FirstPosition(), TEXT + "the scores at position 0 were used; those at the last "
            "position say what comes next.", WRITES),
    Mistake("reads-second-last-position", SecondLastPosition(), IS + "the scores one position too early were used; "
            "those at the last position say what comes next.", WRITES),
    Mistake("averages-positions", MeanOfPositions(), TEXT + "the scores of all positions were averaged.",
            WRITES),
    Mistake("feeds-last-token-only", LastTokenOnly(), TEXT + "without a cache the model has to see the whole "
            "text, not only its last token.", WRITES),
    Mistake("eos-stops-whole-batch", StopsAtTheFirst(), IS + "as soon as one row had ended, all of them stopped.",
            WRITES),
    Mistake("eos-stops-whole-batch", StopsWithTheFirstRow(), IS + "when the first row had ended, all of them stopped.",
            WRITES),
    Mistake("row-goes-on-after-eos", GoesOn(), TEXT + "a row that has ended gets only `eos` from then on.",
            WRITES),
    Mistake("row-goes-on-after-eos", GoesOnAndOn(), TEXT + "a row that has ended gets only `eos` from then on.",
            WRITES),
    Mistake("row-goes-on-after-eos", StopsWhenAllAreEndedNow(), TEXT + "a row that has ended gets only `eos` "
            "from then on; which rows have ended has to be remembered.", WRITES),
    Mistake("row-goes-on-after-eos", EndsIfGreedy(), 'In the case "{case}" the share of {what} is {got} where {want} '
            "is wanted: a row that has ended gets only `eos`, even when tokens are drawn.", WRITES),
    Mistake("zero-is-no-end", EndOfZeroIsNone(), TEXT + "an `eos` of 0 is a token like any other; ask whether it `is "
            "None`.", WRITES),
    Mistake("fills-with-zero", FillsWithZero(), TEXT + "a row that has ended is filled up with `eos`, not with "
            "0.", WRITES),
    Mistake("eos-in-prompt-counts", PromptCounts(), TEXT + "an `eos` in the prompt does not end a row.",
            WRITES),
    Mistake("eos-in-prompt-counts", LastOfPromptCounts(), TEXT + "an `eos` in the prompt does not end a row.",
            WRITES),
    Mistake("eos-in-prompt-counts", LastTokenEnds(), TEXT + "the last token was asked whether the row has "
            "ended; at the start, that is a token of the prompt.", WRITES),
    Mistake("train-mode", TrainMode(), "The model ran in {ran}: there, dropout and batch norm disturb what is chosen.",
            WRITES),
    Mistake("train-mode", TrainModeWithGraph(), RAN + "And without `no_grad`, memory grows with each token.",
            WRITES),
    Mistake("train-mode", TrainModeGoesOn(), RAN + "And a row that has ended gets only `eos`.", WRITES),
    Mistake("train-mode", ForgetsEverything(), RAN + "And `no_grad` is missing, and rows go on after `eos`.",
            WRITES),
    Mistake("stays-in-eval", StaysInEvalGoesOn(), MODES + "after `eval()`, give every part back the mode that it had. "
            "And a row that has ended gets only `eos`.", WRITES),
    Mistake("stays-in-eval", StaysInEval(), MODES + "after `eval()`, give every part back the mode that it had.",
            WRITES),
    Mistake("train-afterwards", TrainAfterwards(), MODES + "`train()` puts every part into training mode, the frozen "
            "one too.", WRITES),
    Mistake("one-flag-for-all-modes", OneFlag(), MODES + "one flag was kept for the whole model, and a part of "
            "it was in another mode.", WRITES),
    Mistake("builds-graph", BuildsGraph(), "A graph was {got} while the text was made: without `no_grad`, "
            "memory grows with each token.", WRITES),
    Mistake("grad-mode-left-off", SwitchesGradOff(), 'In the case "{case}" gradients were {got} after the call: '
            "a `no_grad` block ends by itself; what is switched off by hand stays off.", WRITES),
    Mistake("freezes-the-model", FreezesTheModel(), 'In the case "{case}" the parameters {got} no longer require '
            "gradients after the call: to build no graph, use `no_grad`; the flags are the caller's.", WRITES),
    Mistake("feeds-last-eight-only", LastEight(), 'In the case "{case}" the token at {at} is {got_at} and should be '
            "{want_at}: the model was shown only the end of the text, but it needs all of it.", WRITES),
    Mistake("feeds-the-end-only", LastFortyEight(), 'In the case "{case}" the token at {at} is {got_at} and should '
            "be {want_at}: the model was shown only the end of a long text. A model that cannot read all of it cuts it "
            "by itself.",
            WRITES),
    Mistake("device-of-the-first-parameter", AsksTheFirstParameter(), 'In the case "{case}" the call raised {error}: '
            "a model may have no parameters. Take the device from `ids`.", WRITES),
    Mistake("generator-copied", CopiesTheGenerator(), 'In the case "{case}" a second call with the same generator went '
            "on {got}: the tokens were drawn with a copy, and the generator itself did not move on.", WRITES),
    Mistake("same-noise-for-every-token", OneNoiseForAllSteps(), 'In the case "{case}" the share of {what} is {got} '
            "where {want} is wanted: each token needs random numbers of its own.", WRITES),
    Mistake("top-k-ignored", IgnoresTopK(), SHARES + "`top_k` has no effect.", WRITES),
    Mistake("keeps-the-smallest", KeepsTheSmallest(), IS + "the k smallest scores were kept, not the k "
            "largest.", WRITES),
    Mistake("zero-for-the-rest", ZeroForTheRest(), SHARES + "a score of 0 is an ordinary score; tokens that are not "
            "allowed need minus infinity.", WRITES),
    Mistake("top-k-above-vocabulary", TopKOfAnySize(), 'In the case "{case}" the call raised {error}: a `top_k` '
            "larger than the vocabulary means all tokens.", WRITES),
    Mistake("one-too-few-of-top-k", LosesTheBest(), SHARES + "the k-th largest score itself is still allowed.",
            WRITES),
    Mistake("one-limit-for-all-rows", OneLimitForAllRows(), SHARES + "one limit was used for all rows; each row has a "
            "k-th largest score of its own.", WRITES),
    Mistake("places-for-tokens", PlacesForTokens(), IS + "the draw gave a place among the k largest scores, and that "
            "place was taken for the token.", WRITES),
    Mistake("even-shares", EvenShares(), EVEN, WRITES),
    Mistake("even-shares", OverTheBatch(), EVEN, WRITES),
    Mistake("generator-ignored", GlobalGenerator(), "With a generator given, the global random state is "
            "{state} by the call: the draw did not use the generator.", WRITES),
    Mistake("one-draw-for-all-rows", OneForAll(), SHARES + "one token was drawn for all rows together; each row needs "
            "a draw of its own.", WRITES),
    Mistake("returns-new-tokens-only", NewOnly(), IS + "the prompt belongs to the result.", WRITES),
    Mistake("one-too-many", OneTooMany(), IS + "one token more than `max_new` was appended.", WRITES),
    Mistake("max-new-is-the-length", LengthInAll(), IS + "`max_new` counts new tokens, not the total length.",
            WRITES),
    Mistake("changes-its-input", WritesIntoThePrompt(), "In the case \"{case}\" the caller's own ids were "
            "{got}, and should be {want}.", WRITES),
    Mistake("made-on-cpu", FlagsOnTheCPU(), MIXED, WRITES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    prompts = draw.integers(0, 7, 4, 3).tolist()
    both = sampled(draw, "top 3 at temperature 2", top_k=3, temperature=2.0)
    unseeded = both.inputs | {"seed": None, "options": {"temperature": 0.7}}
    ids = torch.stack([shuffled(draw, 6)[:4] for _ in range(3)])
    return [
        greedy(draw, "drawn prompts", prompts, draw.size(2, 6)),
        greedy(draw, "drawn prompts with an end", prompts, 7, eos=draw.size(0, 6)),
        from_drawn_tables(draw, "drawn tables, greedy", draw.size(1, 4), draw.size(2, 5)),
        both,
        case("drawn without a generator", atol=0.045, rtol=0, **unseeded),
        greedy(draw, "a prompt of one token", [[draw.size(0, 6)]], 3),
        case("top 1 with a generator", **tables(draw, 6), ids=ids[:, :2], max_new=3, options={"top_k": 1}, seed=3),
    ]


# Right answers unlike the reference


@torch.no_grad()
def by_sorting(
    model: nn.Module,
    ids: Tensor,
    max_new: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    eos: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    training = {name for name, module in model.named_modules() if module.training}
    model.eval()
    finished = torch.zeros_like(ids[:, :1], dtype=torch.bool)
    text = ids
    while text.shape[1] < ids.shape[1] + max_new and not bool(finished.all()):
        scores, order = model(text)[:, -1, :].sort(dim=-1, descending=True)
        kept = 1 if temperature == 0 else min(top_k or scores.shape[-1], scores.shape[-1])
        probabilities = torch.softmax(scores[:, :kept] / (temperature or 1.0), dim=-1)
        place = torch.multinomial(probabilities, 1, generator=generator)
        token = order.gather(1, place)
        if eos is not None:
            token = torch.where(finished, torch.full_like(token, eos), token)
            finished |= token == eos
        text = torch.cat((text, token), dim=-1)
    for name, module in model.named_modules():
        module.training = name in training
    return text


def into_one_tensor(
    model: nn.Module,
    ids: Tensor,
    max_new: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    eos: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    modes = [m.training for m in model.modules()]
    model.eval()
    width = ids.shape[1]
    text = torch.cat([ids, ids.new_zeros(len(ids), max_new)], 1)
    alive = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    with torch.no_grad():
        for place in range(width, width + max_new):
            scores = model(text[:, :place])[:, place - 1]
            if temperature == 0:
                token = scores.max(-1).indices
            else:
                if top_k is not None and top_k < scores.size(-1):
                    allowed = torch.zeros_like(scores).scatter(1, scores.topk(top_k).indices, 1.0)
                    scores = scores + allowed.log()
                noise = torch.rand(scores.shape, generator=generator, device=scores.device)
                token = (scores / temperature - (-noise.log()).log()).argmax(-1)
            text[:, place] = token if eos is None else torch.where(alive, token, eos)
            alive = alive if eos is None else alive & (token != eos)
    for m, mode in zip(model.modules(), modes, strict=True):
        m.training = mode
    return text.clone()


def row_flags(model: nn.Module, ids: Tensor, max_new: int, **options: Any) -> Tensor:
    was = [m for m in model.modules() if m.training]
    t, k, end = options.get("temperature", 1.0), options.get("top_k"), options.get("eos")
    model.eval()
    rows = list(ids.unbind(0))
    with torch.inference_mode():
        for _ in range(max_new):
            scores = model(torch.stack(rows))[:, -1]
            shares = (scores / t).softmax(-1) if t else (scores == scores.amax(-1, keepdim=True)).float()
            if t and k:
                worst = shares.topk(min(k, shares.shape[-1]))[0][:, -1, None]
                shares = torch.where(shares < worst, 0, shares)
            tokens = torch.multinomial(shares, 1, generator=options.get("generator"))
            if end is not None:
                ended = (torch.stack(rows)[:, ids.shape[1] :] == end).any(1, keepdim=True)
                tokens = tokens.masked_fill(ended, end)
            rows = list(torch.cat([torch.stack(rows), tokens], 1).unbind(0))
    for m in was:
        m.training = True
    return torch.stack(rows)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_sorting, into_one_tensor, row_flags]
