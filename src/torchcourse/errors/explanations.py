"""Explain an error of torch in a paragraph: the tensors it is about, and the usual causes.

Typical errors are recognised by their messages; others get no explanation.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from types import TracebackType

from torch import Tensor

from torchcourse.errors.traceback_tensors import NamedTensor, in_learners_code, in_library, written_in_place

__all__ = ["EXPLAINED", "KINDS", "ErrorKind", "explain_error", "kind_of"]


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: patterns of its messages, what they mean, and the usual causes."""

    name: str
    messages: tuple[str, ...]
    meaning: str
    causes: str


EXPLAINED = (RuntimeError, IndexError, ValueError, TypeError, AttributeError, AssertionError)
"""The exceptions of which some are explained."""
KINDS = (
    ErrorKind(
        "in-place", (r"has been modified by an inplace operation",),
        "Backward needs a value that was saved in the forward pass, and the tensor that held it has been written to "
        "since.",
        "`+=`, `x[...] = ...`, `relu_` or `inplace=True` on something that a later operation had used; an optimizer's "
        "step between a forward pass and its backward. Write a new tensor instead (`x = x + 1`), or write to a clone.",
    ),
    ErrorKind(
        "leaf-in-place", (r"leaf Variable that requires grad is being used in an in-place operation",
                          r"a view of a leaf Variable that requires grad"),
        "A parameter, or a view of one, is written to while autograd records; it would no longer be the start of the "
        "graph.",
        "an update step outside `with torch.no_grad():`; setting entries of a parameter; an initialisation by hand.",
    ),
    ErrorKind(
        "second-backward", (r"backward through the graph a second time",),
        "The first backward freed the values that the graph had saved.",
        "`backward` twice on one loss, or on two losses that share a part: add them up and call it once; a state or "
        "hidden vector carried over from the step before: `detach` it; a loss kept in a list instead of `loss.item()`.",
    ),
    ErrorKind(
        "not-a-scalar", (r"grad can be implicitly created only for scalar outputs",),
        "`backward` without an argument starts from a single number.",
        "a loss with `reduction=\"none\"`, or a missing `.mean()` or `.sum()`; on purpose, a gradient of the result's "
        "shape has to be given.",
    ),
    ErrorKind(
        "no-graph", (r"does not require grad and does not have a grad_fn",),
        "This tensor was not computed from anything that requires a gradient.",
        "a forward pass under `no_grad`; `detach`, `item`, `numpy` or `torch.tensor(...)` on the way; an `argmax` or a "
        "comparison, which have no gradient; frozen parameters.",
    ),
    ErrorKind(
        "index-dtype", (r"tensors used as indices must be", r"[Ee]xpected dtype int64 for index",
                        r"for argument #1 'indices'.*scalar types: Long",
                        r"[Oo]nly integers, slices .* are valid indices",
                        r"(gather|scatter|index_select|index_add|index_fill)\w*\(\).*[Ee]xpected.*(int64|int32|Long|index)"),
        "Indices are whole numbers: int64, or a bool mask.",
        "labels read as floats; a division, which gives floats (`//` does not); a mask of zeros and ones that is not "
        "bool. `.long()` or `.bool()` where the index is made.",
    ),
    ErrorKind(
        "target-dtype", (r"expected scalar type Long but found", r"expected target dtype to be",
                         r"\"nll_loss\w*\" not implemented for",
                         r"Expected floating point type for target with class prob"),
        "`cross_entropy` takes class numbers as int64 of shape (n,), or probabilities as floats of the logits' shape.",
        "labels that are float32 or int32: `.long()` them; logits and labels in the wrong order; one-hot labels of an "
        "integer dtype.",
    ),
    ErrorKind(
        "target-shape", (r"multi-target not supported",),
        "Class numbers have one dimension less than the logits: shape (n,) beside (n, classes).",
        "labels of shape (n, 1): `labels.squeeze(1)`; one-hot labels of an integer dtype, of which `argmax(dim=1)` "
        "makes class numbers.",
    ),
    ErrorKind(
        "state-dict", (r"Error\(s\) in loading state_dict",),
        "The names or shapes that were to be loaded are not those of this model.",
        "a model made with other sizes than the one that was saved; a prefix, `module.` from DataParallel or "
        "`_orig_mod.` from torch.compile; a checkpoint that holds the weights under a key of their own.",
    ),
    ErrorKind(
        "no-cuda", (r"Found no NVIDIA driver", r"not compiled with CUDA", r"No CUDA GPUs are available",
                    r"deserialize object on a CUDA device"),
        "There is no GPU here that CUDA could use.",
        "\"cuda\" hard-coded where the program should ask: `torch.accelerator.is_available()`; a file saved from a "
        "GPU, which `torch.load(path, map_location=\"cpu\")` reads anywhere; a build of PyTorch for the CPU.",
    ),
    ErrorKind(
        "device", (r"to be on the same device", r"on the same device as the indexed tensor",
                   r"is not on the expected device",
                   r"to have device \S+, but got", r"device type tensor to numpy",
                   r"Input type \(.*cuda.*\) and weight type"),
        "One operation works on one device.",
        "a batch, or labels, that were not moved with `.to(device)`; a tensor made inside a function without "
        "`device=x.device`; a tensor that is a plain attribute of a module, and no buffer or parameter; `.numpy()` on "
        "a device, where NumPy cannot read: `.cpu()` first.",
    ),
    ErrorKind(
        "dtype", (r"expected scalar type \w+ but found", r"(must|to) have (the )?same dtype",
                  r"Found dtype \w+ but expected \w+",
                  r"Input type \(.*\) and (weight|bias) type \(.*\) should be the same",
                  r"can't be cast to the desired output type", r"Expected \w*Tensor of type",
                  r"[Oo]nly Tensors of floating point .*can require gradients",
                  r"Input dtype must be either a floating point or complex dtype"),
        "The operation needs all inputs in one dtype, or in a floating-point one.",
        "NumPy's floats, which arrive as float64 (`.float()` them, or `torch.as_tensor(a, dtype=torch.float32)`); "
        "integers where a mean or a gradient is wanted; a model in float64, or in half precision outside of autocast.",
    ),
    ErrorKind(
        "product", (r"shapes cannot be multiplied", r"mat1 dim 1 must match mat2 dim 0", r"self must be a matrix",
                    r"size mismatch, got", r"inconsistent tensor size",
                    r"Expected size for first two dimensions of batch2",
                    r"Given normalized_shape=.*, expected input with shape"),
        "In a matrix product, the last size of the left operand must equal the second-to-last of the right; a layer's "
        "input must match its `in_features`.",
        "a layer made for another width; a missing `flatten` before the first `Linear`; a missing transpose.",
    ),
    ErrorKind(
        "channels", (r"expected input\[.*\] to have \d+ channels", r"running_mean should contain \d+ elements"),
        "The second dimension of a convolution's input, or the first without a batch, must be its `in_channels`; of a "
        "batch norm's, its `num_features`.",
        "a layer made for another number of channels; images with their channels last, which `permute(0, 3, 1, 2)` "
        "puts second; a missing batch or channel dimension.",
    ),
    ErrorKind(
        "input size", (r"input\.size\(-1\) must be equal to input_size",),
        "The last dimension of a recurrent layer's input must be its `input_size`.",
        "a layer made for another number of features; `hidden_size` given in place of `input_size`; a sequence whose "
        "axes are in another order.",
    ),
    ErrorKind(
        "broadcasting", (r"The size of tensor a \(\d+\) must match the size of tensor b", r"shape mismatch: ",
                         r"not broadcastable", r"The expanded size of the tensor",
                         r"output with shape .* doesn't match"),
        "Shapes line up from the right; two sizes go together where they are equal or one of them is 1.",
        "a missing `unsqueeze` or `keepdim=True`; one `squeeze` too many; tensors whose axes are in different orders.",
    ),
    ErrorKind(
        "batch", (r"Target size \(.*\) must be the same as input size", r"Expected hidden\[\d\] size",
                  r"Expected input batch_size \(\d+\) to match target batch_size", r"Using a target size .* different",
                  r"size of mask|shape of the mask", r"Expected target size"),
        "The two tensors must have the same batch size.",
        "a `view` or `reshape` that moved entries into the batch axis; sequences whose time axis is still there "
        "(flatten both, or put the classes second); inputs and labels from different batches; outputs of shape (n, 1) "
        "beside labels of shape (n,).",
    ),
    ErrorKind(
        "joining", (r"Sizes of tensors must match except in dimension", r"stack expects each tensor to be equal size",
                    r"Tensors must have same number of dimensions"),
        "`cat` joins tensors that agree on all axes but one; `stack` wants them all alike.",
        "another `dim` was meant; items of different lengths, which need padding; `cat` in place of `stack`, or "
        "the other way round.",
    ),
    ErrorKind(
        "reshape", (r"shape '\[.*\]' is invalid for input of size", r"view size is not compatible with"),
        "A new shape has to hold the same number of entries, and `view` has to find them in this order in memory.",
        "a hard-coded size that depends on the batch (use -1); a transpose or `permute` before `view`: "
        "`reshape` copies where that is needed.",
    ),
    ErrorKind(
        "out-of-range", (r"is out of bounds for dimension", r"index out of range in self",
                         r"Target -?\d+ is out of bounds",
                         r"Dimension out of range", r"index -?\d+ is out of bounds"),
        "An index counts from 0 to one less than the size, an axis from -ndim to ndim - 1.",
        "labels that begin at 1, or more classes than the last layer has outputs; a token beyond the embedding; an "
        "axis that a `squeeze` or an index has removed.",
    ),
    ErrorKind(
        "truth-value", (r"Boolean value of Tensor with",),
        "`if`, `and`, `or` and `not` want one truth value, and a tensor has one for each entry.",
        "`if x > 0` where `(x > 0).any()`, `.all()` or `torch.where` is meant; `and` between masks, for which there is "
        "`&`, with parentheses around each; `0 < x < 1`; `nn.ReLU(x)`, which makes a layer, for `nn.ReLU()(x)`.",
    ),
    ErrorKind(
        "numpy-of-a-graph", (r"Can't call numpy\(\) on Tensor that requires grad",),
        "NumPy cannot record what it does, so a gradient would end there unseen.",
        "plotting or printing what a model returned: `.detach().cpu().numpy()`; an evaluation outside of `no_grad`; "
        "NumPy in the middle of a model, where torch has a function of the same name.",
    ),
    ErrorKind(
        "one-number", (r"cannot be converted to Scalar", r"only one element tensors can be converted"),
        "`item`, `float` and `int` take a tensor of one entry.",
        "a loss with `reduction=\"none\"`, or a missing `.mean()`; a metric for each class; for all numbers as a list "
        "there is `tolist`.",
    ),
    ErrorKind(
        "no-dimensions", (r"of a 0-d tensor", r"over a 0-d tensor"),
        "A tensor without dimensions is one number: it has no length, and there is nothing to go through.",
        "a `sum`, `mean` or `squeeze` too many; an index that took the last dimension away; a label that was not put "
        "into a batch.",
    ),
    ErrorKind(
        "condition", (r"where expected condition to be a boolean tensor",),
        "`torch.where` chooses by True and False.",
        "a mask of zeros and ones: `mask.bool()`, or the comparison that it came from.",
    ),
    ErrorKind(
        "probability", (r"all elements of (input|target) should be between 0 and 1",),
        "`binary_cross_entropy` compares probabilities.",
        "logits that have been through no sigmoid: `binary_cross_entropy_with_logits` takes them as they are, and is "
        "more precise; labels other than 0 and 1; NaN from an earlier step.",
    ),
    ErrorKind(
        "missing-argument", (r"(__init__|forward)\(\) missing \d+ required (positional|keyword-only) argument",),
        "A layer learns its sizes when it is made, and gets its input when it is called.",
        "`nn.Linear(3)` where `nn.Linear(3, 2)` is meant; a model called without a batch; a class of your own whose "
        "`__init__` wants more than it was given.",
    ),
    ErrorKind(
        "before-init", (r"cannot assign (module|parameters?|buffer) before Module\.__init__\(\) call",),
        "A module can register nothing before `nn.Module` has set it up.",
        "no `super().__init__()`, or one that is not the first line of `__init__`.",
    ),
    ErrorKind(
        "one-value", (r"Expected more than 1 (value per channel|spatial element) when training",),
        "In training mode a norm over the batch needs more than one value per channel: a single value has variance 0.",
        "a last batch of one item, which `drop_last=True` leaves out; a single image tried without `model.eval()`.",
    ),
    ErrorKind(
        "too-small", (r"Kernel size can't be greater than actual input size", r"Output size is too small"),
        "The window does not fit into what is left of the image.",
        "images smaller than the model was made for; one pooling or stride too many; padding that was left out.",
    ),
    ErrorKind(
        "dimensions", (r"expected \dD.* input \(got \dD input\)",
                       r"Expected \dD \(unbatched\) or \dD \(batched\) input", r"must be a \dD tensor"),
        "A layer decides by the number of dimensions which ones are batch, channels and positions.",
        "a single image without a batch: `x.unsqueeze(0)`; grey images without a channel: `x.unsqueeze(1)`; a "
        "`flatten` that came too early.",
    ),
    ErrorKind(
        "list-of-tensors", (r"must be tuple of Tensors, not Tensor",),
        "`cat` and `stack` take one list or tuple of tensors.",
        "tensors given one by one: `torch.cat([a, b])`.",
    ),
    ErrorKind(
        "not-a-tensor", (r"must be Tensor, not \w+", r"invalid combination of arguments - got \(NoneType",
                         r"Could not infer dtype of (NoneType|dict|set|str)", r"[Ee]xpected Tensor as element \d+",
                         r"'NoneType' object has no attribute '(size|shape|dim|dtype|device|backward)'"),
        "A tensor is wanted, and something else arrived.",
        "None from a `forward`, or another function, without `return`; a list or an array, of which `torch.tensor` "
        "makes a tensor; arguments in another order; a dict where one of its entries is meant.",
    ),
    ErrorKind(
        "no-parameters", (r"optimizer got an empty parameter list",
                          r"params argument given to the optimizer should be"),
        "An optimizer takes the parameters of a model, or groups of them.",
        "layers in a plain list or dict, which a module does not see: `nn.ModuleList`, `nn.ModuleDict`; a generator of "
        "parameters that was used up before; a tensor that is not in a list.",
    ),
    ErrorKind(
        "ragged", (r"expected sequence of length \d+ at dim \d+",),
        "A tensor is a block: all rows are equally long.",
        "sequences of different lengths, which need padding: `nn.utils.rnn.pad_sequence`.",
    ),
    ErrorKind(
        "unused", (r"appears to not have been used in the graph",),
        "The result does not depend on this tensor, so there is no gradient to take.",
        "a copy was used in its place, made by `detach`, `torch.tensor` or `.data`; a branch that the forward pass did "
        "not take; for those, `allow_unused=True` gives None.",
    ),
)  # fmt: skip


def kind_of(error: BaseException) -> ErrorKind | None:
    """Return the kind of an error, by its type and message; None if it is unknown."""
    if not isinstance(error, EXPLAINED):
        return None
    try:
        message = str(error)
    except Exception:  # an exception class of the learner's own
        return None
    return next((kind for kind in KINDS if any(re.search(m, message) for m in kind.messages)), None)


def explain_error(error: BaseException, traceback: TracebackType | None) -> str:
    """Return a paragraph on the error, or "" if its kind is unknown. Never raises."""
    kind = kind_of(error)
    if kind is None or traceback is None:
        return ""
    parts = []
    with contextlib.suppress(Exception):  # frames can hold anything, such as a module that is set up by half
        outer, (function, inner) = in_learners_code(traceback), in_library(traceback)
        if kind.name == "in-place":
            parts.append(_written_in_place(str(error), traceback))
        else:
            parts.append(_tensors(outer, function, inner))
        parts.append(_numbers(str(error), [named.tensor for named in (*outer, *inner)]))
    return " ".join(filter(None, [*parts, kind.meaning, f"Usual causes: {kind.causes}"]))


def _numbers(message: str, tensors: list[Tensor]) -> str:
    """Return which numbers do not fit, as a sentence; "" if the message does not tell."""
    if sizes := re.search(r"\(\d+x(\d+) and (\d+)x\d+\)", message):
        return f"{sizes[1]} is not {sizes[2]}."
    if sizes := re.search(r"index (-?\d+) is out of bounds for dimension (\d+) with size ([1-9]\d*)", message):
        return f"Dimension {sizes[2]} has the indices 0 to {int(sizes[3]) - 1}, and {sizes[1]} is none of them."
    if target := re.search(r"Target (-?\d+) is out of bounds", message):
        logits = [t for t in tensors if t.is_floating_point() and t.dim() > 1]
        if logits:
            count = logits[0].shape[1]
            return f"{count} classes count from 0 to {count - 1}, and {target[1]} is none of them."
    return ""


def _tensors(outer: list[NamedTensor], function: str, inner: list[NamedTensor]) -> str:
    """Describe the tensors of the learner's own code, and further ones in a function of a library."""
    known = {id(named.tensor) for named in outer}
    further = [named for named in inner if id(named.tensor) not in known]
    sentences = [_listed(outer)]
    if further:
        sentences.append(f"Inside {function}, {_listed(further)}")
    return " ".join(filter(None, sentences))


def _listed(tensors: list[NamedTensor]) -> str:
    return "; ".join(map(str, tensors)) + "." if tensors else ""


def _written_in_place(message: str, traceback: TracebackType) -> str:
    """Name the tensors that may have been written to, by the shape and version in the message."""
    shape = re.search(r"Tensor \[([\d, ]*)\]\]", message)
    version = re.search(r"is at version (\d+)", message)
    sizes = tuple(int(n) for n in shape[1].split(",") if n.strip()) if shape else None
    found = written_in_place(traceback, sizes, int(version[1]) if version else None)
    if not found:
        return ""
    return f"Of that shape, and written to in place: {_listed(found)}"
