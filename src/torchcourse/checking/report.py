"""The report on one check, which card, terminal and grader share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torchcourse.checking.differences import describe_difference
from torchcourse.checking.explain import explain, fill_sentence, unexplained
from torchcourse.checking.result import Result
from torchcourse.checking.rule_watch import EVASIONS
from torchcourse.checking.torchs_modules import TORCH, exists_in_torch, torchs_namespaces
from torchcourse.model.devices import CPU
from torchcourse.model.exercise import Exercise
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import FORBIDDEN, UNUSABLE, Raised

__all__ = ["TITLES", "Report", "forbidden_calls", "joined_names", "judge", "without_evasions"]

TITLES = {
    "passed": "Right",
    "stale": "Checked an earlier version",
    "failed": "Not right yet",
    "error": "An exception came up",
    "forbidden": "Not allowed here",
    "unattempted": "Not attempted",
    "timeout": "Out of time",
    "interrupted": "Interrupted",
    "unknown": "No such exercise",
}
"""What learners read for each status."""


@dataclass(frozen=True)
class Report:
    """The outcome of one check.

    `status` is passed, failed, error, forbidden, unattempted, timeout, interrupted or unknown, or stale if what passed
    is not what the notebook has now; `message` is what the learner reads. `misconception` has the names of the mistakes
    that explain the answer, joined by "+" ("" if none does); `section` is the heading of the section to read again.
    `example` is the failed case that the message begins with.
    """

    exercise: str
    status: str
    message: str
    misconception: str = ""
    section: str = ""
    results: Sequence[Result] = field(default=())
    example: Result | None = None

    @property
    def passed(self) -> bool:
        return self.status == "passed"


def judge(exercise: Exercise, results: Sequence[Result], known: Sequence[KnownMistake]) -> Report:
    """Return the report on an answer that ran in all its cases, given the known mistakes of its exercise."""
    failed = [r for r in results if not r.passed]
    if not failed:
        count = len({r.number for r in results})
        places = " and ".join(dict.fromkeys(_device_words(r.device) for r in results))
        return Report(exercise.name, "passed", f"All {count} cases agree {places}.", results=results)
    calls, results = forbidden_calls(exercise, results), without_evasions(exercise, results)
    mistakes = explain(results, known) if set(calls) <= set(EVASIONS) else []
    if calls and not mistakes:
        names = ", ".join(f"`{name}`" for name in calls)
        instead = "work it out from the inputs" if TORCH in exercise.forbids else "build it from other operations"
        message = f"The answer uses {names}, which this exercise does not allow: {instead}."
        return Report(exercise.name, "forbidden", message, results=results)
    if not mistakes:
        on_cpu = [r for r in failed if r.device == CPU.name]  # the second device often fails because of the same
        error = next((r for r in on_cpu or failed if "raised" in r.seen), None)
        example = error or (on_cpu or failed)[0]
        message = _describe(example) + _run_beside(exercise, example)
        return Report(exercise.name, "error" if error else "failed", message, results=results, example=example)
    filled = [fill_sentence(exercise, mistake, results) for mistake in mistakes]
    sentences = dict.fromkeys(sentence for sentence, _ in filled)
    rest = [_describe(result, names) for result, names in unexplained(results, mistakes)[:1]]
    message = " Also: ".join([*sentences, *rest])
    return Report(exercise.name, "failed", message, joined_names(mistakes), mistakes[0].section, results, filled[0][1])


def joined_names(mistakes: Sequence[KnownMistake]) -> str:
    """Return the names of mistakes, joined as grades.csv has them."""
    return "+".join(dict.fromkeys(mistake.name for mistake in mistakes))


def forbidden_calls(exercise: Exercise, results: Sequence[Result]) -> list[str]:
    """Return the forbidden calls observed; other names are dropped, since an untrusted process may report any."""
    observed = (r.seen.get(FORBIDDEN) for r in results)
    named = ([n for n in calls if _forbids(exercise, n)] for calls in observed if isinstance(calls, list | tuple))
    return list(dict.fromkeys(next(filter(None, named), [])))


def without_evasions(exercise: Exercise, results: Sequence[Result]) -> Sequence[Result]:
    """Return results in which evading the watch, if that is all that was forbidden, is no difference: what else is
    wrong comes first."""
    calls = forbidden_calls(exercise, results)
    if not calls or not set(calls) <= set(EVASIONS):
        return results
    return [replace(r, differs=tuple(name for name in r.differs if name != FORBIDDEN)) for r in results]


def _forbids(exercise: Exercise, name: object) -> bool:
    if not isinstance(name, str):
        return False
    module, _, function = name.rpartition(".")
    if name in EVASIONS or (TORCH in exercise.forbids and exists_in_torch(name)):
        return True
    return name in exercise.forbids or (module in exercise.forbids and function in torchs_namespaces().get(module, {}))


def _describe(result: Result, differs: Sequence[str] = ()) -> str:
    """Describe a failed case: the exception, or observed and wanted values of `differs` (default: all that differ)."""
    where = f'in the case "{result.case.name}", {_device_words(result.device)}'
    error = result.seen.get("raised")
    if isinstance(error, Raised):
        end = "" if "\n" in error.message else "."  # what another program wrote stays as it is
        return f"{where[0].upper()}{where[1:]}, the answer raised {error}{end}"
    if "returned" in result.seen and "returned" not in result.wanted:
        returned = str(result.seen["returned"])
        said = f"the answer returned {returned}"
        if returned.startswith(UNUSABLE):
            said = f"the check could not use the answer{returned.removeprefix(UNUSABLE)}"
        return f"{where[0].upper()}{where[1:]}, {said}."
    there = [name for name in differs or result.differs if name in result.seen]  # what is missing follows from these
    names = there or differs or result.differs
    differences = " and ".join(describe_difference(result, name) for name in names[:2])
    return f"{where[0].upper()}{where[1:]}, {differences.removesuffix('.')}."


def _run_beside(exercise: Exercise, result: Result) -> str:
    """Return PyTorch's own run of a failed case, as a sentence, where the exercise has a ground truth."""
    if exercise.ground_truth is None:
        return ""
    try:
        quoted = exercise.quotes(result.case.inputs, result.seen, result.wanted)
        return f" PyTorch runs `{quoted['run']}` and {quoted['said']}."
    except Exception:  # observations of an unforeseen form, or no quotes
        return ""


def _device_words(device: str) -> str:
    return {CPU.name: CPU.words, "cuda": "on the GPU"}.get(device, "on a second device (simulated)")
