"""Grade wrong answers whose faults are known, and mutants of right ones, and count how each is explained.

    python -m benchmarks.explanations [--lessons 01_tensors 02_autograd:gradient …] [--sample 10] [--seed 0]
                                      [--folder DIR] [--list]

Each exercise gets all its known mistakes, the answers in `benchmarks/wrong_answers/` (written by hand, most with two
faults) and `--sample` of its mutants (`benchmarks/_mutations.py`), on the visible and hidden cases, on all devices. An
answer that is accepted runs on ten times the cases too. `benchmarks/mutants_read.toml` says which accepted mutants are
right, and which explanations are false: both are found by reading, and `--list` prints what there is to read.

Answers run in a process for each exercise, within the grader's limits; one that dies counts, and the next goes on. With
a folder, the same command goes on where an earlier one was ended, and answers run again only if the exercise changed.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import hashlib
import inspect
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from autograde.course.selection import selected
from autograde.course.verify import results
from autograde.judge.oracle import Oracle, hidden, oracle, references, visible
from autograde.settings import LIMITS
from autograde.source import paths
from autograde.source.private_half import private_path
from autograde.source.script import answers_as_text
from benchmarks._mutations import change, mutants
from torchcourse.checking.check import TimeIsUpError, time_limit
from torchcourse.checking.report import Report, judge
from torchcourse.model.catalogue import LESSONS, exercises, module_name, preload
from torchcourse.model.devices import checked_devices
from torchcourse.model.exercise import Unattempted

HERE = Path(__file__).parent
READ = HERE / "mutants_read.toml"
SEED, OTHER_SEEDS = 11, range(101, 111)
MISTAKE, WRITTEN, MUTANT = "known mistakes", "wrong answers by hand", "mutants"


@dataclass(frozen=True)
class Wrong:
    """An answer to grade: its kind, the exercise, what identifies it, its source, and the mistakes that it makes.

    `faults` are names of known mistakes, each of which is a true explanation; empty where nobody wrote them down.
    """

    kind: str
    exercise: str
    label: str
    source: str = ""
    faults: tuple[str, ...] = ()


@dataclass
class Outcome:
    """How an answer fared in grading; `shown`: its status in the notebook, `elsewhere`: that in ten times the cases."""

    kind: str
    exercise: str
    label: str
    status: str
    faults: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    message: str = ""
    shown: str = ""
    elsewhere: str = ""


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lessons", nargs="+", help="lessons, or exercises as LESSON:EXERCISE")
    parser.add_argument("--sample", type=int, default=10, help="mutants of each exercise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keeps the outcomes; a temporary one, if none is named")
    parser.add_argument("--list", action="store_true", help="print each outcome that a person has to read")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        lesson, _, name = chosen.child.partition(":")
        grade(lesson, name, chosen.sample, chosen.seed, chosen.folder)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        outcomes = dict[str, list[Outcome]]()
        for lesson, names, _ in selected(chosen.lessons):
            outcomes[lesson] = [o for name in names for o in graded(lesson, name, chosen.sample, chosen.seed, folder)]
            print(f"{lesson}: {len(outcomes[lesson])} answers", file=sys.stderr, flush=True)
    if chosen.list:
        print(*to_read(outcomes), sep="\n")
    print(*table(outcomes), sep="\n")
    return 0


# --- the answers --------------------------------------------------------------------------------------------------


def written(lesson: str) -> Iterator[Wrong]:
    """Yield the wrong answers to a lesson's exercises that were written by hand.

    Each is a cell of `benchmarks/wrong_answers/LESSON.py`, headed by `# %% exercise: mistake, mistake`. A fault that no
    known mistake has yet stands there with the words (still accepted) or (not named).
    """
    path = HERE / "wrong_answers" / f"{lesson}.py"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for number, cell in enumerate(re.split(r"^# %% ", text, flags=re.MULTILINE)[1:], 1):
        head, _, source = cell.partition("\n")
        exercise, _, faults = head.partition(":")
        yield Wrong(WRITTEN, exercise.strip(), f"{number}", source, tuple(f.strip() for f in faults.split(",")))


def chosen_answers(lesson: str, name: str, sample: int, seed: int) -> list[Wrong]:
    """Return the answers to an exercise, known mistakes aside: all written by hand, and a sample of mutants."""
    source = answers_as_text(paths.SOLUTIONS / f"{lesson}.py")[name]
    all_mutants = list(mutants(source))
    few = random.Random(f"{seed}:{name}").sample(all_mutants, min(sample, len(all_mutants)))
    return [w for w in written(lesson) if w.exercise == name] + [
        Wrong(MUTANT, name, change(source, mutant), mutant) for mutant in few
    ]


def defined(lesson: str, wrong: Wrong) -> Callable[..., Any]:
    """Run the cell of an answer beside the lesson's other references, and return what it defines."""
    functions = (f for f in references(lesson).values() if inspect.isfunction(f))
    namespace = {**next(functions).__globals__, "__name__": "answer"}
    exec(compile(wrong.source, "answer", "exec"), namespace)
    answer: Callable[..., Any] = namespace[wrong.exercise]
    return answer


# --- in a process for each exercise -------------------------------------------------------------------------------


def graded(lesson: str, name: str, sample: int, seed: int, folder: Path) -> list[Outcome]:
    """Return the outcomes of an exercise's answers; those that are not in the folder yet run in another process."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = folder / f"{name}.begun"
    command = [sys.executable, "-m", "benchmarks.explanations", "--child", f"{lesson}:{name}", "--folder", str(folder),
               "--sample", str(sample), "--seed", str(seed)]  # fmt: skip
    while True:
        begun.unlink(missing_ok=True)
        done = subprocess.run(command, cwd=paths.ROOT, check=False, stdout=subprocess.DEVNULL)
        if done.returncode == 0:
            break
        if not begun.exists():
            raise RuntimeError(f"{lesson}:{name}: the answers could not be graded ({done.returncode})")
        last = json.loads(begun.read_text(encoding="utf-8"))
        note(folder, name, last["key"], Outcome(last["kind"], name, last["label"], "died", last["faults"]))
    noted = recorded(folder, name)
    wrongs = [*known_mistakes(lesson, name), *chosen_answers(lesson, name, sample, seed)]
    return [noted[key(lesson, wrong)] for wrong in wrongs]


def known_mistakes(lesson: str, name: str) -> list[Wrong]:
    """Return the known mistakes of an exercise."""
    mistakes = oracle(lesson, name, lambda e: []).mistakes
    return [Wrong(MISTAKE, name, f"{n} {m.name}", faults=(m.name,)) for n, m in enumerate(mistakes)]


def key(lesson: str, wrong: Wrong) -> str:
    """Return a hash of an answer and of the exercise that judges it."""
    public = paths.ROOT / "src" / "torchcourse" / "exercises" / LESSONS[lesson] / f"{module_name(wrong.exercise)}.py"
    parts = [public.read_text(encoding="utf-8"), private_path(lesson, wrong.exercise).read_text(encoding="utf-8"),
             json.dumps(asdict(wrong))]  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def note(folder: Path, name: str, hashed: str, outcome: Outcome) -> None:
    """Append an outcome to the folder's file of the exercise."""
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": hashed, **asdict(outcome)}) + "\n")


def recorded(folder: Path, name: str) -> dict[str, Outcome]:
    """Return the outcomes that the folder has of an exercise, by key."""
    path = folder / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {entry.pop("key"): Outcome(**entry) for entry in map(json.loads, lines)}


def grade(lesson: str, name: str, sample: int, seed: int, folder: Path) -> None:
    """Grade the answers to an exercise that are not in the folder yet."""
    exercise, noted = exercises(lesson)[name], recorded(folder, name)
    todo = [w for w in [*known_mistakes(lesson, name), *chosen_answers(lesson, name, sample, seed)]
            if key(lesson, w) not in noted]  # fmt: skip
    if not todo:
        return
    preload(exercise.imports)
    whole = oracle(lesson, name, lambda e: [*visible(e), *hidden(lesson, e, SEED)])
    observe_all(whole)
    limit = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[5]) + LIMITS.data_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    os.chdir(tempfile.mkdtemp(dir=folder))
    for wrong in todo:
        hashed = key(lesson, wrong)
        (folder / f"{name}.begun").write_text(json.dumps({"key": hashed, **asdict(wrong)}), encoding="utf-8")
        faulthandler.dump_traceback_later(20 * exercise.seconds, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
        note(folder, name, hashed, outcome_of(lesson, whole, wrong))
        faulthandler.cancel_dump_traceback_later()


def observe_all(whole: Oracle) -> None:
    """Run the reference and the known mistakes in all cases, before any answer can get in their way."""
    for device in checked_devices(whole.exercise.any_device):
        for number in range(len(whole.cases)):
            whole.wanted(device.name, number)
            for mistake in whole.known:
                mistake.seen(device.name, number)


def outcome_of(lesson: str, whole: Oracle, wrong: Wrong) -> Outcome:
    """Grade one answer as the grader does, and in the notebook's cases alone."""
    outcome = Outcome(wrong.kind, wrong.exercise, wrong.label, "", list(wrong.faults))
    try:
        with time_limit(2 * whole.exercise.seconds):
            place = int(wrong.label.split()[0]) if wrong.kind == MISTAKE else None
            answer = defined(lesson, wrong) if place is None else whole.mistakes[place].program
            seen = partial(whole.run, answer, trusted=False) if place is None else whole.known[place].seen
            all_cases = results(whole, seen)
            shown = [r for r in all_cases if r.number < len(visible(whole.exercise))]
            report = judge(whole.exercise, all_cases, whole.known)
            outcome.shown = judge(whole.exercise, shown, whole.known).status
    except TimeIsUpError:
        report = Report(wrong.exercise, "timeout", "")
    except Unattempted:
        report = Report(wrong.exercise, "unattempted", "")
    except Exception as error:  # the cell itself raised
        report = Report(wrong.exercise, "error", f"{type(error).__name__}: {error}")
    outcome.status, outcome.message = report.status, report.message
    outcome.named = report.misconception.split("+") if report.misconception else []
    if report.passed:
        outcome.elsewhere = status_elsewhere(lesson, answer, wrong.exercise)
    return outcome


@cache
def other_cases(lesson: str, name: str) -> Oracle:
    """Return an oracle of ten times the cases."""
    return oracle(lesson, name, lambda e: [case for seed in OTHER_SEEDS for case in hidden(lesson, e, seed)])


def status_elsewhere(lesson: str, answer: Callable[..., Any], name: str) -> str:
    """Return whether an answer that was accepted passes ten times the cases too; "" if that takes too long."""
    more = other_cases(lesson, name)
    try:
        with time_limit(6 * more.exercise.seconds):
            again = results(more, partial(more.run, answer, trusted=False))
            return "passed" if all(result.passed for result in again) else "failed"
    except TimeIsUpError:
        return ""


# --- the table ----------------------------------------------------------------------------------------------------


@cache
def read() -> dict[str, list[dict[str, str]]]:
    """Return what people found by reading: the mutants that are right, and the explanations that are false."""
    return tomllib.loads(READ.read_text(encoding="utf-8")) if READ.exists() else {}


def is_read(outcome: Outcome, heading: str) -> bool:
    """Return whether `mutants_read.toml` has an answer under a heading, "equivalent" or "false"."""
    entries = read().get(heading, [])
    return any((entry["exercise"], entry["change"]) == (outcome.exercise, outcome.label) for entry in entries)


def is_false(outcome: Outcome) -> bool:
    """Return whether an explanation names a mistake that the answer does not make."""
    if outcome.kind == MUTANT:
        return bool(outcome.named) and is_read(outcome, "false")
    return not {*outcome.named} <= {*outcome.faults}


def verdict(outcome: Outcome) -> str:
    """Return the column of the table in which an answer counts."""
    if outcome.status == "passed":
        return "equivalent" if is_read(outcome, "equivalent") else "accepted"
    if outcome.named:
        return "false" if is_false(outcome) else "named"
    return {"forbidden": "named", "error": "its exception", "timeout": "stopped", "died": "stopped"}.get(
        outcome.status, "difference only"
    )


COLUMNS = ("equivalent", "accepted", "named", "its exception", "stopped", "difference only", "false")


def table(outcomes: dict[str, list[Outcome]]) -> Iterator[str]:
    """Yield the lines of the Markdown table: each lesson's mutants, then all answers of each kind."""
    yield f"| | answers | {' | '.join(COLUMNS)} | named or told, of those rejected |"
    yield "|---|" + "--:|" * (len(COLUMNS) + 2)
    everything = [o for found in outcomes.values() for o in found]
    groups = {f"mutants, {lesson}": [o for o in found if o.kind == MUTANT] for lesson, found in outcomes.items()}
    groups |= {f"all {kind}": [o for o in everything if o.kind == kind] for kind in (MISTAKE, WRITTEN, MUTANT)}
    for heading, found in groups.items():
        counts = collections.Counter(map(verdict, found))
        rejected = len(found) - counts["equivalent"] - counts["accepted"]
        share = f"{(rejected - counts['difference only'] - counts['false']) / rejected:.1%}" if rejected else "none"
        yield f"| {heading} | {len(found)} | {' | '.join(str(counts[c]) for c in COLUMNS)} | {share} |"


def to_read(outcomes: dict[str, list[Outcome]]) -> Iterator[str]:
    """Yield what a person has to read: accepted answers, those that the notebook accepts, and each explanation."""
    for found in outcomes.values():
        for outcome in sorted(found, key=lambda o: (o.kind, o.exercise, o.status)):
            about = f"{outcome.exercise} [{outcome.kind}] {outcome.label} {'+'.join(outcome.faults)}"
            if outcome.status == "passed":
                if verdict(outcome) == "accepted":
                    yield f"ACCEPTED ({outcome.elsewhere or 'too slow'} elsewhere): {about}"
                continue
            if outcome.shown == "passed":
                yield f"RIGHT IN THE NOTEBOOK: {about}"
            yield f"{verdict(outcome).upper()}: {about}\n    {'+'.join(outcome.named)}: {outcome.message}"


if __name__ == "__main__":
    sys.exit(main())
