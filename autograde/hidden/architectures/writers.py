"""Programs for the exercise `generate`: a right one, and one for each mistake."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Writer:
    """A right `generate`; a mistake overrides one of its methods."""

    def __call__(
        self,
        model: Any,
        ids: Tensor,
        max_new: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        eos: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Any:
        modes = self.note(model)
        self.prepare(model)
        with self.context():
            text = self.write(model, ids, max_new, eos, temperature=temperature, top_k=top_k, generator=generator)
        self.restore(model, modes)
        return text

    def note(self, model: nn.Module) -> Any:
        return [(module, module.training) for module in model.modules()]

    def prepare(self, model: nn.Module) -> None:
        model.eval()

    def restore(self, model: nn.Module, modes: Any) -> None:
        for module, mode in modes:
            module.training = mode

    def context(self) -> Any:
        return torch.no_grad()

    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        done = self.begun(ids, eos)
        for _ in range(self.rounds(ids, max_new)):
            token = self.choose(self.read(model, ids), **options)
            if eos is not None:
                token = self.ended(token, done, eos)
                done = done | (token == eos)
            ids = torch.cat([ids, token[:, None]], 1)
            if eos is not None and self.stops(done):
                break
        return ids

    def begun(self, ids: Tensor, eos: int | None) -> Tensor:
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    def rounds(self, ids: Tensor, max_new: int) -> int:
        return max_new

    def read(self, model: Any, ids: Tensor) -> Tensor:
        scores: Tensor = model(ids)[:, -1]
        return scores

    def ended(self, token: Tensor, done: Tensor, eos: int) -> Tensor:
        return torch.where(done, eos, token)

    def stops(self, done: Tensor) -> bool:
        return bool(done.all())

    def choose(
        self, scores: Tensor, *, temperature: float, top_k: int | None, generator: torch.Generator | None
    ) -> Tensor:
        if self.is_greedy(temperature):
            return scores.argmax(-1)
        scores = self.heated(scores, temperature)
        if top_k is not None:
            scores = self.cut(scores, top_k)
        return self.draw(self.probabilities(scores), generator)

    def is_greedy(self, temperature: float) -> bool:
        return temperature == 0

    def heated(self, scores: Tensor, temperature: float) -> Tensor:
        return scores / temperature

    def cut(self, scores: Tensor, k: int) -> Tensor:
        least = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
        return scores.masked_fill(scores < least, -torch.inf)

    def probabilities(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def draw(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.multinomial(shares, 1, generator=generator)[:, 0]


class OneLimitForAllRows(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        least = scores.topk(min(k, scores.shape[-1])).values.min()
        return scores.masked_fill(scores < least, -torch.inf)


class Multiplies(Writer):
    def is_greedy(self, temperature: float) -> bool:
        return temperature == 0

    def heated(self, scores: Tensor, temperature: float) -> Tensor:
        return scores * temperature


class IgnoresTemperature(Writer):
    def heated(self, scores: Tensor, temperature: float) -> Tensor:
        return scores


class HeatsProbabilities(Writer):
    def heated(self, scores: Tensor, temperature: float) -> Tensor:
        return scores.softmax(-1) / temperature


class DividesByZero(Writer):
    def is_greedy(self, temperature: float) -> bool:
        return False


class AlwaysGreedy(Writer):
    def is_greedy(self, temperature: float) -> bool:
        return True


class FirstPosition(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        scores: Tensor = model(ids)[:, 0]
        return scores


class SecondLastPosition(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        scores: Tensor = model(ids)[:, -2]
        return scores


class MeanOfPositions(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        return torch.as_tensor(model(ids)).mean(1)


class LastTokenOnly(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        scores: Tensor = model(ids[:, -1:])[:, -1]
        return scores


class StopsAtTheFirst(Writer):
    def stops(self, done: Tensor) -> bool:
        return bool(done.any())


class StopsWithTheFirstRow(Writer):
    def stops(self, done: Tensor) -> bool:
        return bool(done[0])


class GoesOn(Writer):
    def ended(self, token: Tensor, done: Tensor, eos: int) -> Tensor:
        return token


class GoesOnAndOn(GoesOn):
    def stops(self, done: Tensor) -> bool:
        return False


class EndOfZeroIsNone(Writer):
    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        return super().write(model, ids, max_new, eos or None, **options)


class StopsWhenAllAreEndedNow(Writer):
    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        for _ in range(max_new):
            token = self.choose(self.read(model, ids), **options)
            ids = torch.cat([ids, token[:, None]], 1)
            if eos is not None and bool((token == eos).all()):
                break
        return ids


class FillsWithZero(Writer):
    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        done = self.begun(ids, eos)
        for _ in range(max_new):
            token = torch.where(done, 0, self.choose(self.read(model, ids), **options))
            done = done if eos is None else done | (token == eos)
            ids = torch.cat([ids, token[:, None]], 1)
        return ids


class PromptCounts(Writer):
    def begun(self, ids: Tensor, eos: int | None) -> Tensor:
        return super().begun(ids, eos) if eos is None else (ids == eos).any(1)


class LastOfPromptCounts(Writer):
    def begun(self, ids: Tensor, eos: int | None) -> Tensor:
        return super().begun(ids, eos) if eos is None else ids[:, -1] == eos


class LastTokenEnds(Writer):
    def ended(self, token: Tensor, done: Tensor, eos: int) -> Tensor:
        return token

    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        for _ in range(max_new):
            token = self.choose(self.read(model, ids), **options)
            token = token if eos is None else torch.where(ids[:, -1] == eos, eos, token)
            ids = torch.cat([ids, token[:, None]], 1)
        return ids


class TrainMode(Writer):
    def prepare(self, model: nn.Module) -> None:
        pass


class StaysInEval(Writer):
    def restore(self, model: nn.Module, modes: Any) -> None:
        pass


class TrainAfterwards(Writer):
    def restore(self, model: nn.Module, modes: Any) -> None:
        model.train()


class OneFlag(Writer):
    def note(self, model: nn.Module) -> Any:
        return model.training

    def restore(self, model: nn.Module, modes: Any) -> None:
        model.train(modes)


class BuildsGraph(Writer):
    def context(self) -> Any:
        return torch.enable_grad()


class TrainModeWithGraph(TrainMode, BuildsGraph):
    pass


class TrainModeGoesOn(TrainMode, StopsWhenAllAreEndedNow):
    pass


class ForgetsEverything(TrainModeGoesOn, BuildsGraph):
    pass


class StaysInEvalGoesOn(StaysInEval, StopsWhenAllAreEndedNow):
    pass


class IgnoresTopK(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        return scores


class KeepsTheSmallest(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        least = scores.topk(min(k, scores.shape[-1]), largest=False).values[:, -1:]
        return scores.masked_fill(scores > least, -torch.inf)


class ZeroForTheRest(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        least = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
        return scores.masked_fill(scores < least, 0)


class TopKOfAnySize(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        return scores.masked_fill(scores < scores.topk(k).values[:, -1:], -torch.inf)


class LosesTheBest(Writer):
    def cut(self, scores: Tensor, k: int) -> Tensor:
        least = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
        return scores.masked_fill(scores <= least, -torch.inf) if k > 1 else super().cut(scores, k)


class PlacesForTokens(Writer):
    def choose(
        self, scores: Tensor, *, temperature: float, top_k: int | None, generator: torch.Generator | None
    ) -> Tensor:
        if temperature != 0 and top_k is not None:
            scores = scores.topk(min(top_k, scores.shape[-1])).values
        return super().choose(scores, temperature=temperature, top_k=None, generator=generator)


class EvenShares(Writer):
    def probabilities(self, scores: Tensor) -> Tensor:
        return scores.isfinite().to(scores.dtype)


class OverTheBatch(Writer):
    def probabilities(self, scores: Tensor) -> Tensor:
        return scores.softmax(0).nan_to_num()


class GlobalGenerator(Writer):
    def draw(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.multinomial(shares, 1)[:, 0]


class OneForAll(Writer):
    def draw(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.multinomial(shares[0], 1, generator=generator).expand(len(shares))


class NewOnly(Writer):
    def __call__(self, model: Any, ids: Tensor, max_new: int, **options: Any) -> Any:
        return super().__call__(model, ids, max_new, **options)[:, ids.shape[1] :]


class OneTooMany(Writer):
    def rounds(self, ids: Tensor, max_new: int) -> int:
        return max_new + 1


class LengthInAll(Writer):
    def rounds(self, ids: Tensor, max_new: int) -> int:
        return max(max_new - ids.shape[1], 0)


class FlagsOnTheCPU(Writer):
    def begun(self, ids: Tensor, eos: int | None) -> Tensor:
        return torch.zeros(len(ids), dtype=torch.bool)


class WritesIntoThePrompt(Writer):
    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        text = super().write(model, ids, max_new, eos, **options)
        ids.copy_(text[:, : ids.shape[1]].roll(1, 1))
        return text
