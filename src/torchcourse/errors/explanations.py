"""Explain an error of torch in a paragraph: the tensors it is about, and the usual causes.

Errors of shape, device, dtype and in-place writing are recognised by their messages; others get no explanation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType

from torchcourse.errors.traceback_tensors import NamedTensor, in_learners_code, in_library, written_in_place

__all__ = ["KINDS", "ErrorKind", "explain_error", "kind_of"]


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: patterns of its messages, what they mean, and the usual causes."""

    name: str
    messages: tuple[str, ...]
    meaning: str
    causes: str


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
        "device", (r"to be on the same device", r"on the same device as the indexed tensor",
                   r"to have device \S+, but got", r"device type tensor to numpy",
                   r"Input type \(.*cuda.*\) and weight type"),
        "One operation works on one device.",
        "a batch, or labels, that were not moved with `.to(device)`; a tensor made inside a function without "
        "`device=x.device`; a tensor that is a plain attribute of a module, and no buffer or parameter.",
    ),
    ErrorKind(
        "dtype", (r"expected scalar type \w+ but found", r"must have the same dtype", r"to have the same dtype",
                  r"Found dtype \w+ but expected \w+",
                  r"Input type \(.*\) and (weight|bias) type \(.*\) should be the same",
                  r"can't be cast to the desired output type", r"Expected \w*Tensor of type",
                  r"[Oo]nly Tensors of floating point .*can require gradients",
                  r"Input dtype must be either a floating point or complex dtype"),
        "The operation needs all inputs in one dtype, or in a floating-point one.",
        "NumPy's floats, which arrive as float64 (`.float()` them, or `torch.as_tensor(a, dtype=torch.float32)`); "
        "integers where a mean or a gradient is wanted; half precision outside of autocast.",
    ),
    ErrorKind(
        "product", (r"shapes cannot be multiplied", r"mat1 dim 1 must match mat2 dim 0", r"self must be a matrix",
                    r"size mismatch, got", r"inconsistent tensor size",
                    r"Expected size for first two dimensions of batch2",
                    r"expected input\[.*\] to have \d+ channels"),
        "In a product the last size of the left operand equals the last but one of the right; a layer's inputs have "
        "the size of its `in_features` or channels.",
        "a layer made for another width; a missing `flatten` before the first `Linear`; a missing transpose; channels "
        "that come last.",
    ),
    ErrorKind(
        "broadcasting", (r"The size of tensor a \(\d+\) must match the size of tensor b", r"shape mismatch: ",
                         r"not broadcastable", r"The expanded size of the tensor",
                         r"output with shape .* doesn't match"),
        "Shapes line up from the right; two sizes go together where they are equal or one of them is 1.",
        "a missing `unsqueeze` or `keepdim=True`; one `squeeze` too many; tensors whose axes are in different orders.",
    ),
    ErrorKind(
        "batch", (r"Expected input batch_size \(\d+\) to match target batch_size", r"Using a target size .* different",
                  r"size of mask|shape of the mask", r"Expected target size"),
        "Both have to count the same items.",
        "a `view` or `reshape` that moved entries into the batch axis; sequences whose time axis is still there "
        "(flatten both, or put the classes second); inputs and labels from different batches.",
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
        "a size written down that depends on the batch (leave it to -1); a transpose or `permute` before `view`: "
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
)  # fmt: skip


def kind_of(error: BaseException) -> ErrorKind | None:
    """Return the kind of an error, by its type and message; None if it is unknown."""
    if not isinstance(error, RuntimeError | IndexError | ValueError | TypeError):
        return None
    message = str(error)
    return next((kind for kind in KINDS if any(re.search(m, message) for m in kind.messages)), None)


def explain_error(error: BaseException, traceback: TracebackType | None) -> str:
    """Return a paragraph on the error, or "" if its kind is unknown. Never raises."""
    try:
        kind = kind_of(error)
        if kind is None or traceback is None:
            return ""
        parts = [_tensors(kind, error, traceback), kind.meaning, f"Usual causes: {kind.causes}"]
        return " ".join(filter(None, parts))
    except Exception:  # frames can hold anything, and the error itself must still be shown
        return ""


def _tensors(kind: ErrorKind, error: BaseException, traceback: TracebackType) -> str:
    if kind.name == "in-place":
        return _written_in_place(str(error), traceback)
    function, inner = in_library(traceback)
    outer = in_learners_code(traceback)
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
