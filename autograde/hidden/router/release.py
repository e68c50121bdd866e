"""The exercise `release`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from autograde.hidden.router.right_releases import by_exporting_first, by_replacing
from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.release import release_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "All that can fail happens in a folder of its own, and the swap comes last, by renaming. So whoever reads the "
    "release finds the old one or the new one, and never half of each. Other sizes than the example's are tried, "
    "because those are what a fixed dimension gets wrong. `finally` tidies up and gives the modes back."
)
"""Why the reference is written as it is."""
REQUIRED = ("swaps-before-parity", "fixed-batch", "train-mode-export", "no-vocab")
"""The mistakes that a check must always be able to name."""


class Release:
    """A right release; a mistake overrides one of its methods. It uses the older exporter, which is faster."""

    def __call__(self, model: Any, vocab: Any, config: Any, example: Any, directory: Any, atol: float = 1e-4) -> None:
        modes = [(m, m.training) for m in model.modules()]
        directory = Path(directory)
        folder = Path(tempfile.mkdtemp(dir=self.place(directory)))
        try:
            self.prepare(model)
            self.write(model, vocab, config, example, folder)
            self.before_proof(folder, directory)
            self.prove(model, example, folder, atol)
            self.swap(folder, directory)
        finally:
            self.tidy(folder)
            self.give_back(modes)

    def place(self, directory: Path) -> Any:
        return directory.parent

    def prepare(self, model: Any) -> None:
        model.eval()

    def write(self, model: Any, vocab: Any, config: Any, example: Any, folder: Path) -> None:
        self.save(model, folder / "weights.pt")
        (folder / "config.json").write_text(json.dumps(config))
        self.words(vocab, folder / "vocab.json")
        self.export(model, example, folder / "router.onnx")

    def save(self, model: Any, path: Path) -> None:
        torch.save(model.state_dict(), path)

    def words(self, vocab: Any, path: Path) -> None:
        path.write_text(json.dumps(vocab))

    def free(self) -> dict[int, str]:
        return {0: "batch", 1: "length"}

    def export(self, model: Any, example: Any, path: Path) -> None:
        torch.onnx.export(
            model, (example["input_ids"], example["attention_mask"]), str(path), dynamo=False,
            input_names=["input_ids", "attention_mask"], output_names=["logits"],
            dynamic_axes={name: self.free() for name in ("input_ids", "attention_mask")},
            training=torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip

    def before_proof(self, folder: Path, directory: Path) -> None:
        pass

    def prove(self, model: Any, example: Any, folder: Path, atol: float) -> None:
        session = onnxruntime.InferenceSession(str(folder / "router.onnx"), providers=["CPUExecutionProvider"])
        for other in self.others(example):
            (got,) = session.run(None, {name: tensor.numpy() for name, tensor in other.items()})
            with torch.no_grad():
                wanted = model(other["input_ids"], other["attention_mask"])
            if self.is_off(self.gap((torch.from_numpy(got) - wanted).abs()), atol):
                self.refuse()

    def gap(self, gaps: Any) -> Any:
        return gaps.max()

    def is_off(self, gap: Any, atol: float) -> bool:
        return not gap <= atol

    def others(self, example: Any) -> Any:
        return [{name: t[:1, :1] for name, t in example.items()}, {name: t.repeat(2, 2) for name, t in example.items()}]

    def refuse(self) -> None:
        raise ValueError("the ONNX file computes something else than the model")

    def swap(self, folder: Path, directory: Path) -> None:
        if directory.exists():
            shutil.rmtree(directory)
        folder.rename(directory)

    def tidy(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def give_back(self, modes: Any) -> None:
        for module, training in modes:
            module.training = training


class SwapsFirst(Release):
    def prove(self, model: Any, example: Any, folder: Path, atol: float) -> None:
        pass

    def swap(self, folder: Path, directory: Path) -> None:
        super().swap(folder, directory)
        self.proved_in = directory

    def __call__(self, model: Any, vocab: Any, config: Any, example: Any, directory: Any, atol: float = 1e-4) -> None:
        super().__call__(model, vocab, config, example, directory, atol)
        mode = model.training
        Release.prove(self, model.eval(), example, Path(directory), atol)
        model.train(mode)
        model.frozen.eval()


class CopiesFirst(Release):
    def before_proof(self, folder: Path, directory: Path) -> None:
        shutil.copytree(folder, directory, dirs_exist_ok=True)


class WritesInPlace(Release):
    def __call__(self, model: Any, vocab: Any, config: Any, example: Any, directory: Any, atol: float = 1e-4) -> None:
        modes = [(m, m.training) for m in model.modules()]
        model.eval()
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir()
        self.write(model, vocab, config, example, Path(directory))
        try:
            self.prove(model, example, Path(directory), atol)
        finally:
            self.give_back(modes)


class ClearsThePlaceFirst(WritesInPlace):
    def prove(self, model: Any, example: Any, folder: Path, atol: float) -> None:
        try:
            super().prove(model, example, folder, atol)
        except ValueError:
            shutil.rmtree(folder)
            raise


class FixedBatch(Release):
    def free(self) -> dict[int, str]:
        return {1: "length"}

    def others(self, example: Any) -> Any:
        return [{name: t[:, :1] for name, t in example.items()}, {name: t.repeat(1, 2) for name, t in example.items()}]


class FixedLength(Release):
    def free(self) -> dict[int, str]:
        return {0: "batch"}

    def others(self, example: Any) -> Any:
        return [{name: t[:1] for name, t in example.items()}, {name: t.repeat(2, 1) for name, t in example.items()}]


class FixedBoth(Release):
    def free(self) -> dict[int, str]:
        return {}

    def others(self, example: Any) -> Any:
        return [example]


class ExampleOnly(Release):
    def others(self, example: Any) -> Any:
        return [example]


class OtherLengthsOnly(Release):
    def others(self, example: Any) -> Any:
        return [{name: t[:, :length] for name, t in example.items()} for length in (1, 2)]


class TrainMode(Release):
    def prepare(self, model: Any) -> None:
        pass


class ElsewhereOnDisk(Release):
    def place(self, directory: Path) -> Any:
        return None

    def swap(self, folder: Path, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.move(folder, directory)


class NoVocab(Release):
    def words(self, vocab: Any, path: Path) -> None:
        pass


class WordsAsAList(Release):
    def words(self, vocab: Any, path: Path) -> None:
        path.write_text(json.dumps(list(vocab)))


class WholeModel(Release):
    def save(self, model: Any, path: Path) -> None:
        torch.save([list(model.state_dict())], path)


class NeverProves(Release):
    def prove(self, model: Any, example: Any, folder: Path, atol: float) -> None:
        pass


class PassesNan(Release):
    def is_off(self, gap: Any, atol: float) -> bool:
        return bool(gap > atol)


class MeanGap(Release):
    def gap(self, gaps: Any) -> Any:
        return gaps.mean()


class WeightsInAnotherFile(Release):
    """As the newer exporter does it, unless it is told otherwise."""

    def export(self, model: Any, example: Any, path: Path) -> None:
        super().export(model, example, path)
        onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="router.onnx.data",
                        size_threshold=0)  # fmt: skip


class OneTolerance(Release):
    def prove(self, model: Any, example: Any, folder: Path, atol: float) -> None:
        super().prove(model, example, folder, 1e-4)


class OnlyLogs(Release):
    def refuse(self) -> None:
        logging.getLogger(__name__).info("parity failed")


class KeepsQuiet(Release):
    def __call__(self, model: Any, vocab: Any, config: Any, example: Any, directory: Any, atol: float = 1e-4) -> None:
        try:
            super().__call__(model, vocab, config, example, directory, atol)
        except ValueError:
            return


class LeavesRubbish(Release):
    def tidy(self, folder: Path) -> None:
        pass


class TidiesAfterItsOwnErrorOnly(Release):
    """Tidies where the logits differ, and not where the export or ONNX Runtime raises."""

    refused = False

    def refuse(self) -> None:
        self.refused = True
        super().refuse()

    def tidy(self, folder: Path) -> None:
        if self.refused:
            super().tidy(folder)
        self.refused = False


class LeavesEval(Release):
    def give_back(self, modes: Any) -> None:
        pass


class OnSuccessOnly(Release):
    def __call__(self, model: Any, vocab: Any, config: Any, example: Any, directory: Any, atol: float = 1e-4) -> None:
        modes = [(m, m.training) for m in model.modules()]
        super().__call__(model, vocab, config, example, directory, atol)
        self.afterwards(modes)

    def give_back(self, modes: Any) -> None:
        pass

    def afterwards(self, modes: Any) -> None:
        Release().give_back(modes)


class OneFlagOnSuccessOnly(OnSuccessOnly):
    def afterwards(self, modes: Any) -> None:
        modes[0][0].train(modes[0][1])


class TrainAfterwards(Release):
    def give_back(self, modes: Any) -> None:
        modes[0][0].train(modes[0][1])


class IntoTheOld(Release):
    def swap(self, folder: Path, directory: Path) -> None:
        shutil.copytree(folder, directory, dirs_exist_ok=True)


RELEASE = "The release"
IS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
DURING = 'In the case "{case}" the folder was {got} while ONNX ran, and should be {want}: '
RAISED = 'In the case "{case}" the call raised {got}, and a ValueError is wanted: '
MODES = 'In the case "{case}" the modes afterwards are {got} and should be {want}: '
REFUSED = "The example had the size {example}. Then {sizes} came, and the call was refused: {refused}. "
MISTAKES = [
    Mistake("swaps-before-parity", SwapsFirst(), DURING + "the new release was put in place first and examined "
            "afterwards. If it fails, there is nothing left to go back to.", RELEASE),
    Mistake("swaps-before-parity", CopiesFirst(), DURING + "the new files were copied over the old ones before they "
            "were examined.", RELEASE),
    Mistake("swaps-before-parity", WritesInPlace(), DURING + "the files were written straight into the place of the "
            "old release.", RELEASE),
    Mistake("swaps-before-parity", ClearsThePlaceFirst(), DURING + "the old release was deleted first, and the new "
            "files were written into its place before they were examined.", RELEASE),
    Mistake("fixed-batch", FixedBatch(), REFUSED + "The batch size is dimension 0 of both inputs, and has to be free.",
            RELEASE),
    Mistake("fixed-length", FixedLength(), REFUSED + "The length is dimension 1 of both inputs, and has to be free.",
            RELEASE),
    Mistake("fixed-batch", FixedBoth(), REFUSED + "No dimension was left free, neither batch nor length.", RELEASE),
    Mistake("proves-the-example-only", ExampleOnly(), RAISED + "the file was tried with the example alone, for which "
            "it was right. It was not for other lengths.", RELEASE),
    Mistake("proves-one-number-of-tickets", OtherLengthsOnly(), RAISED + "the file was tried with other lengths, but "
            "always with as many tickets as the example has. It was not right for another number.", RELEASE),
    Mistake("compares-the-mean", MeanGap(), IS + "the mean of the differences was within atol, and single ones were "
            "not. All logits have to agree.", RELEASE),
    Mistake("train-mode-export", TrainMode(), 'In the case "{case}" the {what} are off, {got} where {want} is wanted: '
            "the model was exported in training mode.", RELEASE),
    Mistake("temporary-folder-elsewhere", ElsewhereOnDisk(), 'In the case "{case}" the file that ONNX ran was {got} '
            'and should be {want}: ' + "a folder in the system's place for temporary files may be on another disk. "
            "Then moving it copies file by file, and for a while half a release is in place.",
            RELEASE),
    Mistake("no-vocab", NoVocab(), 'In the case "{case}" the folder holds {files}: without its vocabulary nobody can '
            "feed the model.", RELEASE),
    Mistake("words-without-ids", WordsAsAList(), IS + "the dict itself is asked for.", RELEASE),
    Mistake("weights-not-a-state-dict", WholeModel(), IS + "a `state_dict` loads without running code.", RELEASE),
    Mistake("never-proves", NeverProves(), "In the case \"{case}\" {got}: nothing compared the file with the model.",
            RELEASE),
    Mistake("passes-nan", PassesNan(), RAISED + "NaN passed for agreement. A comparison with NaN is never true, so ask "
            "whether the gap is within `atol`, not whether it is larger.", RELEASE),
    Mistake("weights-in-another-file", WeightsInAnotherFile(), IS + "the exporter put the weights into a second file, "
            "unless it is told not to.", RELEASE),
    Mistake("ignores-atol", OneTolerance(), "In the case \"{case}\" the call raised {got}. The logits are within the "
            "`atol` that the call was given, so nothing should be raised.", RELEASE),
    Mistake("prints-and-goes-on", OnlyLogs(), RAISED + "the failure was noticed, but the release went on.", RELEASE),
    Mistake("keeps-quiet", KeepsQuiet(), RAISED + "the release was given up, but nobody was told.", RELEASE),
    Mistake("leaves-rubbish", LeavesRubbish(), 'In the case "{case}" something is left beside the folder: {beside}. '
            "A failed release tidies up, too.", RELEASE),
    Mistake("leaves-rubbish", TidiesAfterItsOwnErrorOnly(), 'In the case "{case}" something is left beside the folder: '
            "{beside}. An export that raises leaves the temporary folder, unless `finally` removes it.", RELEASE),
    Mistake("leaves-eval-mode", LeavesEval(), MODES + "the model was put in eval mode and left there.", RELEASE),
    Mistake("one-flag-for-all-modes", TrainAfterwards(), MODES + "`train()` sets all parts of the model alike, and one "
            "of them had another mode.", RELEASE),
    Mistake("restores-mode-on-success-only", OnSuccessOnly(), MODES + "a release that was given up left the model in "
            "eval mode. Give the modes back in `finally`.", RELEASE),
    Mistake("restores-mode-on-success-only", OneFlagOnSuccessOnly(), MODES + "the mode came back after a success only, "
            "and then as one flag for all parts of the model alike.", RELEASE),
    Mistake("keeps-old-files", IntoTheOld(), 'In the case "{case}" the folder holds {files}: files of the old release '
            "are still among them.", RELEASE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [release_case(draw, "over an old one, in training mode", train=True)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_replacing, by_exporting_first]
