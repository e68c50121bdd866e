"""Lesson 06: hidden cases and known mistakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from autograde.hidden.common import LEFT, MIXED, apart, variants
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.gpu import entries
from torchcourse.exercises.machines import MACHINES

CHOOSING, MOVING = "Choosing a device", "Moving what you have"
MAKING, STRAYS = "Making things where the data is", "Finding what stayed behind"
AHEAD, TIMING = "Copying ahead", "Timing what runs later"
HOLDS, MEMORY = "What a training step holds in memory", "Out of memory"
TWICE, ROOF = "Checkpointing: compute it twice", "The roofline"


def one(name: str, program: Callable[..., Any], sentence: str, read: str, **options: Any) -> Mistake:
    """A mistake that is not tried together with others."""
    return apart([Mistake(name, program, sentence, read, options)])[0]


# --- pick_device -------------------------------------------------------------------------------------------------


def pick(
    prefer: Any = None, *, finds: str = "any", heeds: str = "checks", says: str = "all", index: bool = True,
    returns: str = "device", unknown: str = "refused",
) -> Any:  # fmt: skip
    """Choose a device, with this or that done wrong."""
    if prefer is None or heeds == "never":
        return _found(finds) if returns == "device" else str(_found(finds))
    if heeds == "trusts":
        return torch.device(prefer)
    messages = {"all": f"prefer is {prefer}, and that is not available", "value": f"{prefer} is not available here"}
    message = messages.get(says, "this device is not available")
    try:
        device = torch.device(prefer)
    except RuntimeError:
        if says == "torch" or unknown == "raises":
            raise
        if heeds == "falls back":
            return _found(finds)
        raise ValueError(message) from None
    if device.type != "cpu":
        module = torch.get_device_module(device)
        count = module.device_count() if module.is_available() else 0
        if (count <= (device.index or 0)) if index else not count:
            if heeds == "falls back":
                return _found(finds)
            raise (RuntimeError if says == "torch" else ValueError)(message)
    return device if returns == "device" else str(device)


def _found(finds: str) -> torch.device:
    if finds == "any":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    if finds == "built":
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    if finds == "first gpu":
        return torch.device("cuda", 0)
    return torch.device("cuda" if finds == "cuda" and torch.cuda.is_available() else "cpu")


CUDA_ONLY = 'In the case "{case}" the device is {chosen} where {wanted_device} is wanted: there are others than CUDA.'
PICK = [
    *slips(
        pick, CHOOSING,
        hardcoded_cuda=({"finds": "cuda"}, CUDA_ONLY),
        ignores_preference=({"heeds": "never"}, 'In the case "{case}" the answer was {got}, and {want} is wanted: '
                            "`prefer` has no influence on it."),
        index_not_checked=({"index": False}, "The machine has one GPU, and {prefer} was accepted all the same: the "
                           "outcome was {got}. Compare the index with `device_count()`."),
        unknown_names_left_to_torch=({"unknown": "raises"}, 'In the case "{case}" the call ended with {outcome}: '
                                     "`torch.device` refuses a name it does not know with a RuntimeError of its own, "
                                     "and a ValueError is wanted."),
    ),
    *variants("hardcoded-cuda", pick, CUDA_ONLY, CHOOSING, {"finds": "first gpu"}),
    *variants("falls-back-silently", pick, 'In the case "{case}" the outcome was {got}: who asks for a device by name '
              "wants that one, or an error, and not another device without a word.", CHOOSING, {"heeds": "falls back"}),
    *variants("trusts-preference", pick, 'In the case "{case}" the outcome was {outcome}: `torch.device` makes a name '
              "for a device, whether this machine has one or not.", CHOOSING, {"heeds": "trusts"}),
    *variants("trusts-the-build", pick, 'In the case "{case}" the device is {chosen}: without `check_available` torch '
              "names the accelerator that it was built for, be it there or not.", CHOOSING, {"finds": "built"}),
    *variants("always-the-cpu", pick, 'In the case "{case}" the device is {chosen} where {wanted_device} is wanted: '
              "nobody looked for an accelerator.", CHOOSING, {"finds": "none"}),
    *variants("raises-runtime-error", pick, 'In the case "{case}" the call ended with {outcome}; a ValueError is '
              "wanted, as for any argument with a value that cannot be.", CHOOSING, {"says": "torch"}),
    *variants("message-without-the-name", pick, 'In the case "{case}" the message was "{message}": it should name '
              "`prefer` and say what it was.", CHOOSING, {"says": "little"}, {"says": "value"}),
    *variants("returns-text", pick, 'In the case "{case}" the answer returned {got}: a torch.device is wanted.',
              CHOOSING, {"returns": "text"}),
]  # fmt: skip


def more_pick(draw: Draw) -> list[Case]:
    none, cpu_only, single, double, apple, intel = MACHINES
    asked: list[tuple[str, str | None, bool]] = [
        (intel, None, False), (double, None, False), (none, "cpu", False), (double, "cuda:0", False),
        (single, "cuda", False), (intel, "xpu", False), (apple, "mps", False), (cpu_only, "mps", True),
        (intel, "xpu:1", True), (single, "mps", True), (double, "cuda:2", True),
    ]  # fmt: skip
    return [
        case(f"{prefer or 'nothing'} wanted on {machine}", machine=machine, prefer=prefer, refuses=refuses,
             as_device=prefer is not None and draw.size(0, 1) == 1)
        for machine, prefer, refuses in asked
    ]  # fmt: skip


# --- move_to -----------------------------------------------------------------------------------------------------


def move(
    obj: Any, device: torch.device, *, named: str = "kept", tuples: str = "kept", lists: bool = True,
    dicts: bool = True, deep: bool = True, others: str = "pass", in_place: bool = False, depth: int = 0,
) -> Any:  # fmt: skip
    """Move what is in a container, with this or that done wrong."""
    if isinstance(obj, Tensor):
        return obj.to(device)
    if depth and not deep:
        return obj

    def inner(item: Any) -> Any:
        return move(item, device, named=named, tuples=tuples, lists=lists, dicts=dicts, deep=deep, others=others,
                    in_place=in_place, depth=depth + 1)  # fmt: skip

    if isinstance(obj, dict) and dicts:
        if in_place:
            for key in obj:
                obj[key] = inner(obj[key])
            return obj
        return {key: inner(value) for key, value in obj.items()}
    if isinstance(obj, list) and lists:
        if in_place:
            obj[:] = [inner(value) for value in obj]
            return obj
        return [inner(value) for value in obj]
    if isinstance(obj, tuple):
        moved = [inner(value) for value in obj]
        if tuples == "unpacked":
            return type(obj)(*moved)
        if hasattr(obj, "_fields") and named != "lost":
            return type(obj)(*moved) if named == "kept" else type(obj)(moved)
        return moved if tuples == "lists" else tuple(moved)
    if others == "to" and hasattr(obj, "to"):
        return obj.to(device)
    if others == "none":
        return None
    return obj.to(device) if others == "all" else obj


TOP = 'In the case "{case}" the result is {came}, and {should} is wanted: containers inside of containers were left.'
MOVE = [
    *slips(
        move, MOVING,
        namedtuple_lost=({"named": "lost"}, "A namedtuple came out as {came}, and {should} is wanted: without its "
                         "fields, `batch.x` no longer works."),
        mutates_input=({"in_place": True}, 'In the case "{case}" the caller\'s own object was {afterwards}, since its '
                       "items were assigned anew: build a new container instead."),
        only_top_level=({"deep": False}, TOP),
        tuples_become_lists=({"tuples": "lists"}, 'In the case "{case}" the result is {came}, and {should} is wanted: '
                             "a tuple stays a tuple."),
        moves_modules_too=({"others": "to"}, 'In the case "{case}" the result is {came}: a module has a method `to` as '
                           "well, and it changes the module that the caller still holds."),
    ),
    *variants("namedtuple-from-one-list", move, 'In the case "{case}" the call raised {error}: a namedtuple takes its '
              "fields one by one, so a list of them has to be unpacked.", MOVING, {"named": "one list"}),
    *variants("tuple-from-single-items", move, 'In the case "{case}" the call raised {error}: a plain tuple takes one '
              "iterable; only a namedtuple takes its fields one by one.", MOVING, {"tuples": "unpacked"}),
    *variants("forgets-other-things", move, 'In the case "{case}" the result is {came}, and {should} is wanted: what '
              "is neither a tensor nor a container passes through, and a function without `return` returns None.",
              MOVING, {"others": "none"}),
    *variants("crashes-on-other-things", move, 'In the case "{case}" the call raised {error}: only tensors can be '
              "moved, all else passes through.", MOVING, {"others": "all"}),
    *variants("passes-lists-by", move, 'In the case "{case}" the result is {came}, and {should} is wanted: there are '
              "tensors in lists as well.", MOVING, {"lists": False}),
    *variants("passes-dicts-by", move, 'In the case "{case}" the result is {came}, and {should} is wanted: there are '
              "tensors in dicts as well.", MOVING, {"dicts": False}),
    one("only-top-level", lambda obj, device: obj.to(device) if isinstance(obj, Tensor) else obj, TOP, MOVING),
    one("device-ignored", lambda obj, device: move(obj, torch.device("cpu")), 'In the case "{case}" the result is '
        "{came}, and {should} is wanted: everything goes to one device, whichever was asked for.", MOVING),
]  # fmt: skip


def more_move(draw: Draw) -> list[Case]:
    x, n = draw.normal(2, 3), draw.size(2, 5)
    like: dict[str, Any] = {"like": torch.zeros(1)}
    mixed: list[Any] = [{"Batch": [[x], {"a": (x, None)}]}, ("b", [{"Sample": [{"ids": x}, n, (x,)]}])]
    return [
        case("many levels", obj=mixed, target="elsewhere", **like),
        case("many levels, to the device", obj=mixed, target="device", **like),
        case("empty containers", obj=[(), {}, []], target="elsewhere", **like),
        case("a number", obj=n, target="elsewhere", **like),
        case("a transposed tensor", obj=(draw.normal(3, n).t(), draw.integers(0, 2, 2)), target="device", **like),
    ]


# --- causal_mask -------------------------------------------------------------------------------------------------


def masked(
    x: Tensor, *, keep: str = "upper", diagonal: int = 1, invert: bool = False, size: str = "t", kind: str = "bool",
    where: str = "x",
) -> Tensor:  # fmt: skip
    b, t, d = x.shape
    n = {"t": t, "d": d, "b": b}[size]
    ones = torch.ones(n, n, dtype=torch.bool, device=x.device if where == "x" else None)
    mask = ones.triu(diagonal) if keep == "upper" else ones.tril(-diagonal)
    mask = ~mask if invert else mask
    if kind == "float":
        return torch.zeros(n, n, device=mask.device).masked_fill(mask, float("-inf"))
    if kind == "batch":
        return mask.expand(b, n, n)
    return mask.to(x.dtype) if kind == "x" else mask.float() if kind == "ones" else mask


MASK = [
    *slips(
        masked, MAKING,
        made_on_cpu=({"where": "cpu"}, LEFT),
        diagonal_masked=({"diagonal": 0}, 'In the case "{case}" the diagonal is {diagonal}: a position may look at '
                         "itself, so only what lies above the diagonal is forbidden."),
        mask_inverted=({"invert": True}, 'In the case "{case}" the entry for the next position is {future} and the one '
                       "for the previous is {past}: here True means forbidden, and the future is."),
        forbids_the_past=({"keep": "lower"}, 'In the case "{case}" the entry for the next position is {future} and the '
                          "one for the previous is {past}: row i is who looks, column j what is looked at."),
    ),
    *variants("size-from-another-dimension", masked, "The mask has shape {got_shape}, and {want_shape} is wanted: it "
              "has a row and a column for each position, and x has shape (b, t, d).", MAKING, {"size": "d"},
              {"size": "b"}),
    *variants("not-bool", masked, "The mask is {got_dtype} where {want_dtype} is wanted: True and False say what is "
              "forbidden.", MAKING, {"kind": "float"}, {"kind": "x"}, {"kind": "ones"},
              {"kind": "ones", "where": "cpu"}),
    *variants("one-for-each-sequence", masked, "The mask has shape {got_shape}, and {want_shape} is wanted: all "
              "sequences of a batch share it.", MAKING, {"kind": "batch"}),
    one("made-on-cpu", lambda x: masked(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), MIXED, MAKING),
]  # fmt: skip


def more_mask(draw: Draw) -> list[Case]:
    t = draw.size(6, 9)
    return [
        case("drawn sizes", x=draw.normal(draw.size(1, 4), t, draw.size(1, 9))),
        case("an empty batch", x=torch.empty(0, 3, 2)),
        case("bfloat16", x=draw.normal(2, t, 3, dtype=torch.bfloat16)),
        case("x that requires grad", x=draw.normal(1, t, 2).requires_grad_()),
    ]


# --- PositionalEncoding ------------------------------------------------------------------------------------------


class EncodingWith(nn.Module):
    """A positional encoding with this or that done wrong."""

    table: Tensor

    def __init__(
        self, dim: int, max_len: int, *, holder: str = "buffer", layout: str = "interleaved", factor: int = 2,
        base: float = 10_000.0, first: int = 0, adds: bool = True, rows: str = "t", keeps_dtype: bool = True,
        in_place: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.adds, self.rows, self.keeps_dtype, self.in_place = adds, rows, keeps_dtype, in_place
        position = torch.arange(first, first + max_len, dtype=torch.float32)[:, None]
        column = torch.arange(dim)
        pair = column % (dim // 2) if layout == "halves" else column / 2 if layout == "own" else column // 2
        angle = position / base ** (factor * pair / dim)
        is_sine = column < dim // 2 if layout == "halves" else column % 2 == (layout == "swapped")
        table = torch.where(is_sine, angle.sin(), angle.cos())
        if holder == "plain":
            self.table = table
        elif holder == "parameter":
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table, persistent=holder == "saved")

    def forward(self, x: Tensor) -> Tensor:
        count = {"t": x.shape[1], "b": x.shape[0], "all": len(self.table)}[self.rows]
        table = self.table[:count]
        table = table[:, None] if self.rows == "b" else table
        table = table.to(x.dtype) if self.keeps_dtype else table
        if self.in_place:
            x += table
            return x
        return x + table if self.adds else table.expand_as(x)


class EncodingUnbegun(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        self.table = nn.Buffer(torch.zeros(max_len, dim), persistent=False)


class EncodingUnbegunRegistering(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        self.register_buffer("table", torch.zeros(max_len, dim), persistent=False)


AT = 'In the case "{case}" the value at {at} is {got_at} where {want_at} is wanted: '
ENCODING = [
    *slips(
        EncodingWith, MAKING,
        plain_attribute=({"holder": "plain"}, "The table is {table}: a tensor that is a plain attribute stays behind "
                         "when `.to()` moves the module."),
        saved_in_state_dict=({"holder": "saved"}, "The state_dict holds {saved} numbers that can be computed again: a "
                             "buffer with persistent=False moves as well and is not saved."),
        dtype_not_kept=({"keeps_dtype": False}, "The result is {got_dtype} where {want_dtype} is wanted: bfloat16 plus "
                        "a float32 table is float32, so the table has to take x's dtype first."),
    ),
    *apart(slips(
        EncodingWith, MAKING,
        table_is_trained=({"holder": "parameter"}, "`parameters()` gives {parameters} numbers: the table is "
                          "fixed, and a parameter would be trained, and saved."),
        halves_not_interleaved=({"layout": "halves"}, AT + "sine and cosine take turns from column to column; here all "
                                "sines come first."),
        sine_and_cosine_swapped=({"layout": "swapped"}, AT + "the even columns, from column 0 on, hold the sines."),
        exponent_not_doubled=({"factor": 1}, AT + "the exponent is 2i/dim for the columns 2i and 2i+1."),
        exponent_doubled_twice=({"factor": 4}, AT + "`torch.arange(0, dim, 2)` counts the columns in twos already, so "
                                "2i is doubled."),
        another_base=({"base": 1000.0}, AT + "the base is 10000."),
        starts_at_one=({"first": 1}, AT + "the first position is 0."),
        replaces_x=({"adds": False}, AT + "the table is returned in place of x, and not added to it."),
        changes_its_input=({"in_place": True}, 'In the case "{case}" the caller\'s x was {got} by the call, and should '
                           "be {want}: `x += table` writes into it."),
        rows_of_the_batch=({"rows": "b"}, 'In the case "{case}" what differs is the {what}: {got}, and {want} is '
                           "wanted. x has shape (b, t, dim), and positions are counted along t."),
        adds_the_whole_table=({"rows": "all"}, 'In the case "{case}" the call raised {got}: of the max_len rows of the '
                              "table only the first t are added."),
    )),
    *variants("a-frequency-for-each-column", EncodingWith, AT + "sine and cosine of a pair of columns share one "
              "frequency, that of the even one.", MAKING, {"layout": "own"}, {"layout": "own", "factor": 4}),
    one("missing-super-init", EncodingUnbegun, "Making the module ended with {construction}: `super().__init__()` is "
        "the first line of `__init__`, or nothing is there that could remember a buffer.", MAKING),
    one("missing-super-init", EncodingUnbegunRegistering, "Making the module ended with {construction}: "
        "`super().__init__()` is the first line of `__init__`, or nothing is there that could remember a buffer.",
        MAKING),
]  # fmt: skip


def more_encoding(draw: Draw) -> list[Case]:
    long = draw.size(200, 300)
    return [
        case("two columns", dim=2, max_len=5, x=draw.normal(2, 4, 2), atol=1e-4),
        case("a long sequence", dim=8, max_len=long, x=draw.normal(1, long - 7, 8), atol=5e-4),
        case("one place", dim=4, max_len=1, x=draw.normal(3, 1, 4), atol=1e-4),
        case("transposed", dim=6, max_len=9, x=draw.normal(6, 4, 2).permute(2, 1, 0), atol=1e-4),
        case("float16", dim=6, max_len=9, x=draw.normal(2, 4, 6, dtype=torch.float16), atol=4e-3, rtol=2e-3),
    ]


# --- stray_tensors -----------------------------------------------------------------------------------------------


def strays(
    model: nn.Module, device: torch.device, *, parameters: bool = True, buffers: bool = True, plain: str = "all",
    literal: bool = False, tidy: bool = True, path: bool = True, moves: bool = False, at_home: bool = False,
    saved_only: bool = False,
) -> list[str]:  # fmt: skip
    """Names of tensors that are elsewhere, with this or that done wrong."""
    home = device if literal else torch.empty(0, device=device).device
    found = []
    for prefix, module in model.named_modules():
        own: dict[str, Any] = {}
        own |= module._parameters if parameters else {}
        own |= module._buffers if buffers else {}
        if saved_only:
            own = {name: own[name] for name in own if name not in module._non_persistent_buffers_set}
        own |= vars(module) if plain == "all" or (plain == "root" and not prefix) else {}
        for name, value in own.items():
            if isinstance(value, Tensor) and (value.device != home) != at_home:
                found.append(f"{prefix}.{name}" if prefix and path else name)
    if moves:
        for module in model.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor):
                    setattr(module, name, torch.zeros(value.shape, device=device))
            for name, buffer in module._buffers.items():
                module._buffers[name] = None if buffer is None else torch.zeros(buffer.shape, device=device)
    return sorted(found) if tidy else found


MISSED = 'In the case "{case}" the list lacks {missed}: '
STRAY = [
    *slips(
        strays, STRAYS,
        misses_buffers=({"buffers": False}, MISSED + "buffers are no parameters, and `named_buffers()` lists them."),
        misses_plain_attributes=({"plain": "none"}, MISSED + "a tensor that is a plain attribute is in no list of the "
                                 "module, only among its attributes."),
        index_taken_literally=({"literal": True}, "For a device without an index the list has {extra}, which is where "
                               "it should be: torch.device('cuda') is not equal to torch.device('cuda:0')."),
        unsorted=({"tidy": False}, "The list is {found}, and {wanted_names} is wanted: sort it."),
    ),
    *variants("misses-plain-attributes", strays, MISSED + "submodules have attributes too, not only the model itself.",
              STRAYS, {"plain": "root"}),
    one("only-the-state-dict", strays, MISSED + "a `state_dict` holds what is saved, and that is not all there is.",
        STRAYS, plain="none", saved_only=True),
    *apart(slips(
        strays, STRAYS,
        misses_parameters=({"parameters": False}, MISSED + "it is a parameter."),
        misses_unsaved_buffers=({"saved_only": True}, MISSED + "a buffer with persistent=False is in no `state_dict`, "
                                "and moves all the same."),
        names_without_path=({"path": False}, 'In the case "{case}" the list is {found}, and {wanted_names} is wanted: '
                            "the path of the submodule belongs to the name."),
        lists_those_at_home=({"at_home": True}, 'In the case "{case}" the list is {found}, and {wanted_names} is '
                             "wanted: those that are elsewhere are asked for."),
        moves_the_model=({"moves": True}, 'In the case "{case}" the model was {afterwards} by the call: only look, and '
                         "move nothing."),
    )),
]  # fmt: skip


def more_strays(draw: Draw) -> list[Case]:
    def drawn(name: str, *lines: str, away: str = "meta", indexed: bool = True) -> Case:
        return case(name, entries=entries(*lines), away=away, indexed=indexed, like=torch.zeros(1))

    deep = ".".join(draw.pick(["a", "b", "c"]) for _ in range(4))
    return [
        drawn("an empty model"),
        drawn("four levels down", f"{deep}.w parameter away", f"{deep}.m buffer away", f"{deep}.p plain away",
              f"{deep}.n number home", f"{deep}.q plain home"),
        drawn("names that sort in their own way", "layers.10.w parameter away", "layers.9.w parameter away",
              "Layers.w buffer away", "layers.w plain away"),
        drawn("all of it on the CPU", "a plain away", "b.c unsaved buffer away", away="cpu", indexed=False),
        drawn("nothing but None", "bias nothing home", "a.bias nothing home"),
    ]  # fmt: skip


# --- prefetch ----------------------------------------------------------------------------------------------------


def moved(batch: Any, device: torch.device) -> Any:
    return move(batch, device)


def not_ahead(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    for batch in loader:
        yield moved(batch, device)


def all_at_once(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    yield from [moved(batch, device) for batch in loader]


def all_taken_at_once(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    batches = list(loader)
    following = moved(batches[0], device) if batches else None
    for n in range(len(batches)):
        present, following = following, moved(batches[n + 1], device) if n + 1 < len(batches) else None
        yield present


def ahead(
    loader: Iterable[Any], device: torch.device, *, last: str = "handed out", empty: str = "nothing",
    copies: str = "early", first: bool = True, moves: bool = True,
) -> Iterator[Any]:  # fmt: skip
    """One batch ahead, with this or that done wrong."""
    iterator = iter(loader)

    def fetch() -> Any:
        batch = next(iterator, None)
        return batch if copies == "late" or not moves or batch is None else moved(batch, device)

    present = next(iterator) if empty == "stops" else next(iterator, None)
    if present is not None and moves and copies != "late":
        present = moved(present, device)
    if not first:
        present = fetch()
    while present is not None:
        following = fetch()
        if following is None and last == "dropped":
            return
        yield moved(present, device) if copies == "late" and moves else present
        if following is None and last == "twice":
            yield present
        present = following


PREFETCH = [
    *slips(
        ahead, AHEAD,
        drops_last_batch=({"last": "dropped"}, 'In the case "{case}" the loader has {total} batches, and {count} came '
                          "out: when there is no next one to copy, the present one is still to be handed out."),
        copies_late=({"copies": "late"}, "The next batch is taken from the loader in time, but its copy starts later: "
                     "batches copied: {copied_ahead}."),
        raises_on_empty_loader=({"empty": "stops"}, "With an empty loader the call raised {got}: inside a generator "
                                "`next` without a default turns its end into an error."),
    ),
    *apart(slips(
        ahead, AHEAD,
        hands_out_last_twice=({"last": "twice"}, 'In the case "{case}" the loader has {total} batches, and {count} '
                              "came out: the last one was handed out twice."),
        skips_first_batch=({"first": False}, 'In the case "{case}" the loader has {total} batches, and {count} came '
                           "out: the first one was taken and never handed out."),
        leaves_batches_on_cpu=({"moves": False}, "The batches that came out are on {places}: nobody moved them to the "
                               "device."),
    )),
    one("not-ahead", not_ahead, "Batches taken: {taken_ahead}. The next one has to be on its way by then.", AHEAD),
    one("loads-everything", all_at_once, "Batches taken: {taken_ahead}. The whole data set is on the device before "
        "the first step.", AHEAD),
    one("loads-everything", all_taken_at_once, "Batches taken: {taken_ahead}. The loader is emptied before the first "
        "step, and every batch of it waits in memory.", AHEAD),
]  # fmt: skip


def more_prefetch(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}
    count = draw.size(9, 12)
    nested = [{"x": [draw.normal(2), draw.normal(1)], "y": draw.integers(0, 3, 2)} for _ in range(5)]
    return [
        case("many batches", batches=[(draw.normal(3), draw.integers(0, 2, 3)) for _ in range(count)], **like),
        case("lists in dicts", batches=nested, **like),
        case("one tensor", batches=[draw.normal(2)], **like),
        case("batches of zeros", batches=[torch.zeros(2), torch.zeros(1), torch.zeros(0), torch.ones(1)], **like),
    ]


# --- elapsed -----------------------------------------------------------------------------------------------------


def timed(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10, before: bool = True,
    after: bool = True, warm: str = "apart", asks: bool = True, clock: str = "perf", unit: float = 1.0,
    result: str = "list",
) -> Any:  # fmt: skip
    """Time a function, with this or that done wrong."""

    def wait() -> None:
        if not asks:
            torch.accelerator.synchronize()
        elif device.type != "cpu":
            torch.accelerator.synchronize(device)

    def now() -> float:
        return {"wall": time.time, "process": time.process_time}.get(clock, time.perf_counter)()

    for _ in range(warmup if warm == "apart" else 0):
        fn()
    seconds = []
    for _ in range(repeats + (warmup if warm == "timed" else 0)):
        if before:
            wait()
        start = now()
        fn()
        if after:
            wait()
        seconds.append(unit * (now() - start))
    if warm == "timed" and result == "first":
        return seconds[:repeats]
    return sum(seconds) / len(seconds) if result == "mean" else seconds


def timed_together(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    total = sum(timed(fn, device, warmup=warmup, repeats=repeats))
    return [total / repeats] * repeats


NO_WAIT = (
    'On the second device, in the case "{case}", a run came out as {one} seconds where {wanted_one} is right: '
)
LATE = "the clock was stopped when the work had been handed over, and not when it was done."
EARLY = "the clock was started while the device was still busy with the runs before."
ELAPSED = [
    *slips(
        timed, TIMING,
        no_synchronize=({"before": False, "after": False}, NO_WAIT + LATE),
        times_warmup=({"warm": "timed"}, 'In the case "{case}" there are {count} times where {wanted_count} are '
                      "wanted, the first of them {first} seconds: the runs of the warm-up are among them."),
        uses_wall_clock=({"clock": "wall"}, 'In the case "{case}" a run came out as {one} seconds where {wanted_one} '
                         "is right: `time.time` follows the clock on the wall, which may be set back."),
        in_milliseconds=({"unit": 1000.0}, 'In the case "{case}" a run came out as {one} where {wanted_one} is right: '
                         "seconds are wanted."),
    ),
    *variants("no-synchronize", timed, NO_WAIT + LATE, TIMING, {"after": False}),
    *variants("no-synchronize", timed, NO_WAIT + EARLY, TIMING, {"before": False}),
    *variants("uses-process-time", timed, 'In the case "{case}" a run came out as {one} seconds where {wanted_one} is '
              "right: `process_time` adds up what the threads of this process compute, and is no clock.", TIMING,
              {"clock": "process"}),
    *variants("times-warmup", timed, 'In the case "{case}" the function ran {runs} times and the first time is '
              "{first} seconds where {wanted_first} is right: it stems from the warm-up.", TIMING,
              {"warm": "timed", "result": "first"}),
    *variants("no-warmup", timed, 'In the case "{case}" the function ran {runs} times, and the first time is {first} '
              "seconds where {wanted_first} is right: the first runs of all are slow, and should not count.", TIMING,
              {"warm": "none"}),
    *variants("returns-the-mean", timed, 'In the case "{case}" the answer returned {got}: a list with a number for '
              "each run is wanted, for a mean hides the outliers.", TIMING, {"result": "mean"}),
    one("waits-without-accelerator", timed, "On a CPU alone the call raised {got}: there is nothing to wait for, and "
        "so `torch.accelerator.synchronize()` refuses. Ask for the kind of device first.", TIMING, asks=False),
    one("divides-the-total", timed_together, 'In the case "{case}" a run came out as {one} seconds where {wanted_one} '
        "is right: all have the same time, their mean.", TIMING),
]  # fmt: skip


def more_elapsed(draw: Draw) -> list[Case]:
    def drawn(name: str, warmup: int | None, repeats: int | None, host: float) -> Case:
        first, rest = 3 if warmup is None else warmup, 10 if repeats is None else repeats
        seconds = [5.0] * first + draw.uniform(0.001, 0.5, rest + 2, dtype=torch.float64).tolist()
        inputs: dict[str, Any] = {"seconds": seconds, "host": host, "warmup": warmup, "repeats": repeats}
        return case(name, rtol=0.0, atol=1e-6, **inputs, like=torch.zeros(1))

    return [
        drawn("drawn numbers of runs", draw.size(1, 6), draw.size(2, 12), 0.001),
        drawn("no warm-up, one run", 0, 1, 0.001),
        drawn("warm-up as by default", None, draw.size(2, 6), 0.01),
        drawn("repeats as by default", 1, None, 0.002),
    ]


# --- training_bytes ----------------------------------------------------------------------------------------------


def held(
    num_params: int, *, param_dtype: torch.dtype = torch.float32, optimizer: str = "adamw",
    master_weights: bool = False, gradients: str = "as parameters", states: bool = True, in_param_dtype: bool = False,
    master: str = "float32", counts: str = "right", refuses: str = "well", unit: int = 1,
) -> Any:  # fmt: skip
    """What training holds, with this or that done wrong."""
    size = param_dtype.itemsize
    known = {"adamw": 2 if counts == "right" else 1, "momentum": 1, "sgd": 0}
    if optimizer not in known:
        if refuses == "bare":
            raise KeyError(optimizer)
        if refuses == "well":
            raise ValueError(f"optimizer is {optimizer!r}, and has to be one of {', '.join(known)}")
    total = size
    total += {"as parameters": size, "float32": 4, "none": 0}[gradients]
    total += known.get(optimizer, 0) * (size if in_param_dtype else 4) if states else 0
    unasked = {"unasked": size < 4, "unless float32": size != 4, "always": True}.get(master, False)
    copied = not master_weights if master == "turned round" else master_weights or unasked
    per_state = 4 * known.get(optimizer, 0)
    each = {"as parameters": size, "replaces": 4 - size, "none": 0, "twice": 8, "of the states": per_state}
    total += each.get(master, 4) * copied
    return num_params * total if unit == 1 else num_params * total / abs(unit)


EACH = 'In the case "{case}" there are {each} bytes for each parameter where {wanted_each} are right: '
UNASKED = EACH + "there is a master copy only where `master_weights` asks for one."
BYTES = [
    *slips(
        held, HOLDS,
        forgets_gradients=({"gradients": "none"}, EACH + "every parameter has a gradient beside it."),
        forgets_optimizer_states=({"states": False}, EACH + "AdamW keeps two numbers for each parameter, and momentum "
                                  "one."),
        states_in_param_dtype=({"in_param_dtype": True}, EACH + "the optimizer's states are float32, whatever the "
                               "parameters are."),
        forgets_master_weights=({"master": "none"}, EACH + "the master copy takes four bytes more."),
        master_unasked=({"master": "unasked"}, UNASKED),
    ),
    *slips(held, HOLDS, master_unasked=({"master": "always"}, UNASKED)),
    *variants("master-unasked", held, UNASKED, HOLDS, {"master": "unless float32"}),
    *variants("master-turned-round", held, EACH + "there is a master copy where `master_weights` is True, and none "
              "where it is False.", HOLDS, {"master": "turned round"}),
    *variants("master-too-large", held, EACH + "one float32 copy of the parameters takes four, and nothing else is "
              "copied.", HOLDS, {"master": "twice"}, {"master": "of the states"}),
    *apart(slips(
        held, HOLDS,
        gradients_in_float32=({"gradients": "float32"}, EACH + "the gradients have the parameters' dtype."),
        master_in_param_dtype=({"master": "as parameters"}, EACH + "a master copy is float32, or it would be of no "
                               "use."),
        master_replaces_parameters=({"master": "replaces"}, EACH + "the master copy is kept beside the parameters, not "
                                    "in their place."),
        one_state_for_adamw=({"counts": "one"}, EACH + "AdamW keeps a mean and a mean square for each parameter."),
        accepts_unknown_optimizer=({"refuses": "not"}, 'In the case "{case}" the outcome was {outcome}: an optimizer '
                                   "whose states nobody knows should raise."),
        message_says_too_little=({"refuses": "bare"}, 'In the case "{case}" the outcome was {outcome}: the message '
                                 "should name `optimizer`, and say what it was."),
        returns_a_float=({"unit": 1 << 30}, 'In the case "{case}" the answer is {got} where {want} is wanted: bytes '
                         "are counted, as an int."),
    )),
    *variants("returns-a-float", held, 'In the case "{case}" the answer is {got}, and {want} is wanted: bytes are '
              "counted, as an int. `/` gives a float whatever it divides.", HOLDS, {"unit": -1}),
]  # fmt: skip


def more_bytes(draw: Draw) -> list[Case]:
    n = draw.size(5, 10**6)
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    drawn = [
        case(f"drawn {i}", num_params=n + i, param_dtype=draw.pick(dtypes[1:]), refuses=False,
             optimizer=draw.pick(["adamw", "momentum", "sgd"]), master_weights=draw.size(0, 1) == 1)
        for i in range(6)
    ]  # fmt: skip
    rest: dict[str, Any] = {"optimizer": None, "master_weights": None, "param_dtype": None}
    return [
        *drawn,
        case("one parameter", num_params=1, refuses=False, **rest),
        case("none", num_params=0, refuses=False, **rest),
        case("another unknown optimizer", num_params=n, refuses=True, **{**rest, "optimizer": "adagrad-w"}),
    ]


# --- largest_batch -----------------------------------------------------------------------------------------------


def search(
    run: Callable[[int], object], start: int, limit: int, *, catches: type[Exception] = torch.OutOfMemoryError,
    off: int = 0, top: str = "limit", refines: bool = True, below: bool = True, strict: bool = False,
    trusts: str = "",
) -> Any:  # fmt: skip
    """Search by doubling and halving, with this or that done wrong."""

    def fits(size: int) -> bool:
        try:
            run(size)
        except catches:
            return False
        return True

    good, size = {"start": start, "half": start // 2}.get(trusts, 0), start
    most = {"twice": 2 * limit, "none": 1 << 14}.get(top, limit)
    bad = most + (0 if strict else 1)
    if not below and not fits(start):
        return 0
    while bad - good > 1:
        if fits(size):
            good = size
        else:
            bad = size
        doubling = bad > (most if not strict else most - 1)
        if not doubling and not refines and good:
            break
        size = max(good + 1, min(2 * good, bad - 1)) if doubling else (good + bad) // 2
    return good + off if good or off > 0 else 0


def doubling(run: Callable[[int], object], start: int, limit: int, *, gives: str) -> int:
    size, best = start, 0
    while size <= limit:
        try:
            run(size)
        except torch.OutOfMemoryError:
            break
        best, size = size, 2 * size
    return {"the last that fitted": best, "the first that did not": size}.get(gives, min(size, limit))


def halving(run: Callable[[int], object], start: int, limit: int) -> int:
    size = start
    while size:
        try:
            run(size)
        except torch.OutOfMemoryError:
            size //= 2
        else:
            break
    return size


def one_by_one(run: Callable[[int], object], start: int, limit: int) -> int:
    best = 0
    for size in range(1, limit + 1):
        try:
            run(size)
        except torch.OutOfMemoryError:
            break
        best = size
    return best


def one_less_each_time(run: Callable[[int], object], start: int, limit: int) -> int:
    for size in range(limit, 0, -1):
        try:
            run(size)
        except torch.OutOfMemoryError:
            continue
        return size
    return 0


RESULT = 'In the case "{case}" the answer is {result} where {wanted_result} is right: '
MANY = 'In the case "{case}" there were {calls}: one size after the other is tried.'
UNTRIED = RESULT + "a batch of that size {fits}. The start is a guess, and neither it nor half of it has to fit."
LARGEST = [
    *slips(
        search, MEMORY,
        swallows_other_errors=({"catches": RuntimeError}, 'In the case "{case}" the answer is {result}, and the '
                               "model's own {wanted_error} never came out: only torch.OutOfMemoryError means that a "
                               "batch is too large."),
        off_by_one=({"off": -1}, RESULT + "the last size that fitted is one larger."),
        ignores_the_limit=({"top": "none"}, RESULT + "no size beyond the limit is asked for."),
        trusts_the_start=({"trusts": "start"}, UNTRIED),
        only_doubles=({"refines": False}, RESULT + "between the last size that fitted and the first that did not there "
                      "are others."),
        gives_up_at_start=({"below": False}, RESULT + "if the start does not fit, smaller sizes may."),
    ),
    *variants("ignores-the-limit", search, RESULT + "no size beyond the limit is asked for.", MEMORY, {"top": "twice"}),
    *slips(search, MEMORY, trusts_the_start=({"trusts": "half"}, UNTRIED)),
    *variants("only-doubles", doubling, RESULT + "between the last size that fitted and the first that did not there "
              "are others.", MEMORY, {"gives": "the last that fitted"}),
    *variants("returns-what-did-not-fit", doubling, RESULT + "a batch of that size {fits}, and what is wanted is the "
              "last that did.", MEMORY, {"gives": "the first that did not"}, {"gives": "at most the limit"}),
    *variants("off-by-one", search, RESULT + "that is the first size that did not fit.", MEMORY, {"off": 1}),
    *variants("off-by-one", search, RESULT + "the limit itself is never tried.", MEMORY, {"strict": True}),
    *variants("swallows-other-errors", search, 'In the case "{case}" the answer is {result}, and the model\'s own '
              "{wanted_error} never came out: an `except Exception` hides a broken model.", MEMORY,
              {"catches": Exception}),
    *variants("catches-another-class", search, 'In the case "{case}" the call raised {got}: `MemoryError` is what '
              "Python raises, and torch.OutOfMemoryError is no kind of it.", MEMORY, {"catches": MemoryError}),
    one("only-halves", halving, RESULT + "the start is a guess; where it fits, larger sizes may fit too.", MEMORY),
    one("linear-search", one_by_one, MANY, MEMORY),
    one("linear-search", one_less_each_time, MANY, MEMORY),
]  # fmt: skip


def more_largest(draw: Draw) -> list[Case]:
    def drawn(name: str, start: int, limit: int, capacity: int, error: str = "", breaks_at: int = 0) -> Case:
        return case(name, start=start, limit=limit, capacity=capacity, error=error, breaks_at=breaks_at)

    limit = draw.size(300, 2000)
    return [
        *(drawn(f"drawn {i}", draw.size(1, limit), limit, draw.size(0, limit + 5)) for i in range(6)),
        drawn("a limit of one that fits", 1, 1, 9),
        drawn("a limit of one that does not", 1, 1, 0),
        drawn("the start is the limit", limit, limit, limit - 1),
        drawn("the start is the limit, and fits", limit, limit, limit),
        drawn("a limit of 1024, almost all of it", 1, 1024, 1023),
        drawn("a limit of 4095", 1, 4095, 4094),
        drawn("another error", draw.size(1, 8), 256, 256, "KeyError", 0),
    ]


# --- checkpointed ------------------------------------------------------------------------------------------------


def rerun(
    blocks: Iterable[nn.Module], x: Tensor, *, saves: str = "inputs", reentrant: bool = False, repeats: bool = True,
    cut: str = "", late: bool = False,
) -> Any:  # fmt: skip
    """Run blocks in turn, with this or that done wrong."""
    x = x.detach().requires_grad_() if cut == "before" else x
    with torch.set_grad_enabled(cut != "no_grad"):
        for place, block in enumerate(blocks):
            function = (lambda inner: block(inner)) if late else block  # noqa: B023 - that is the mistake
            if saves == "all":
                x = block(x)
            else:
                x = checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=repeats)
            x = x.detach() if cut == "between" and place == 0 else x
    return x


def in_segments(
    blocks: Iterable[nn.Module], x: Tensor, *, count: int = 0, reentrant: bool = False, repeats: bool = True
) -> Any:
    """checkpoint_sequential in `count` segments, or one for each block, with this or that done wrong."""
    blocks = list(blocks)
    segments = min(count or len(blocks), len(blocks))
    return checkpoint_sequential(  # type: ignore[no-untyped-call]
        blocks, segments, x, use_reentrant=reentrant, preserve_rng_state=repeats
    )


def without_the_last(blocks: Iterable[nn.Module], x: Tensor) -> Any:
    return rerun(list(blocks)[:-1], x)


LOSES = 'In the case "{case}" there is no {lost}, one of {lost_count}: '
SEGMENTS = LOSES + (
    "the reentrant kind gives none where its input needs none, and `checkpoint_sequential` with use_reentrant=True "
    "takes it for all segments but the last."
)
OTHERS = (
    'In the case "{case}" the gradients are {gradients}: the second run of a block dropped other entries than the '
    "first."
)
CHECKPOINTED = [
    *variants("stores-everything", rerun, 'In the case "{case}" backward keeps {bytes}: the blocks run in turn, and '
              "everything inside of them is kept.", TWICE, {"saves": "all"}),
    *slips(
        rerun, TWICE,
        loses_gradient=({"reentrant": True}, LOSES + "the reentrant kind gives none where its input needs "
                        "none."),
        dropout_not_repeated=({"repeats": False}, OTHERS),
        repeats_the_last_block=({"late": True}, 'In the case "{case}", `{what}` came out as {got} where {want} is '
                                "wanted: a lambda looks up `block` when it runs, and in backward that is the last one "
                                "of the loop."),
    ),
    *slips(
        in_segments, TWICE,
        loses_gradient=({"reentrant": True}, SEGMENTS),
        dropout_not_repeated=({"repeats": False}, OTHERS),
    ),
    *variants("loses-gradient", in_segments, SEGMENTS, TWICE, {"reentrant": True, "count": 2}),
    *variants("loses-gradient", rerun, LOSES + "under no_grad nothing is recorded at all.", TWICE, {"cut": "no_grad"}),
    *variants("loses-gradient", rerun, LOSES + "`detach` ends the graph.", TWICE, {"cut": "between"}),
    *variants("loses-gradient", rerun, LOSES + "`x` was cut off from what it was made of before the blocks ran, as by "
              "`detach`.", TWICE, {"cut": "before"}, {"cut": "before", "reentrant": True}),
    one("stores-everything", in_segments, 'In the case "{case}" backward keeps {bytes}: checkpoint_sequential '
        "runs its last segment as it is, and with one segment that is all of it.", TWICE, count=1),
    one("leaves-out-a-block", without_the_last, 'In the case "{case}" the result is {got} where {want} is wanted: a '
        "block is missing.", TWICE),
]  # fmt: skip


def more_checkpointed(draw: Draw) -> list[Case]:
    def drawn(name: str, count: int, dropout: float = 0.0, followed: bool = True, **more: Any) -> Case:
        x = draw.normal(draw.size(14, 18), draw.size(3, 6), **more)
        return case(name, x=x, count=count, dropout=dropout, followed=followed)

    return [
        drawn("six blocks", 6),
        drawn("five blocks, x that needs no gradient", 5, followed=False),
        drawn("much dropout", 4, dropout=0.8),
        drawn("float64 and dropout", 3, dropout=0.2, dtype=torch.float64),
    ]


# --- roofline ----------------------------------------------------------------------------------------------------


def roof(
    flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float, *, ridge: str = "right",
    of: str = "roof", achieved: str = "rate", turned: bool = False, percent: float = 1.0, at_ridge: str = "compute",
    upside_down: bool = False,
) -> dict[str, object]:  # fmt: skip
    """The roofline of an operation, with this or that done wrong."""
    rate = flops / seconds if achieved == "rate" else flops * seconds
    rate = bytes / seconds if achieved == "bandwidth" else rate
    intensity = bytes / flops if turned else flops / bytes
    limit = {"right": peak_flops / peak_bandwidth, "turned": peak_bandwidth / peak_flops}.get(ridge, 1.0)
    above = intensity >= limit if at_ridge == "compute" else intensity > limit
    above = not above if ridge == "reversed" else above
    if ridge == "reversed":
        above = intensity < peak_flops / peak_bandwidth
    roofs = {"roof": min(peak_flops, intensity * peak_bandwidth), "peak": peak_flops,
             "bandwidth": intensity * peak_bandwidth, "sum": max(peak_flops, intensity * peak_bandwidth)}  # fmt: skip
    fraction = percent * (flops / seconds) / roofs[of]
    fraction = 1 / fraction if upside_down else fraction
    return {"achieved": rate, "intensity": intensity, "bound": "compute" if above else "memory", "fraction": fraction}


FRACTION = 'In the case "{case}" the fraction is {fraction} where {wanted_fraction} is right: '
ROOFLINE = [
    *slips(
        roof, ROOF,
        ridge_reversed=({"ridge": "reversed"}, 'In the case "{case}" it is bound by {bound}, with {intensity} '
                        "operations a byte and the ridge at {ridge}: few operations a byte leave the chip waiting for "
                        "memory."),
        fraction_of_peak_not_roof=({"of": "peak"}, FRACTION + "where memory bounds, the peak cannot be attained "
                                   "whatever one does."),
        ridge_counts_as_memory=({"at_ridge": "memory"}, 'In the case "{case}" it is bound by {bound}, at an intensity '
                                "of {intensity} and the ridge at {ridge}: from the ridge up, compute is the bound."),
        intensity_turned_over=({"turned": True}, 'In the case "{case}" the intensity is {intensity} where '
                               "{wanted_intensity} is right: operations for each byte, not bytes for each operation."),
    ),
    *variants("ridge-reversed", roof, 'In the case "{case}" it is bound by {bound}, at an intensity of {intensity}: '
              "the ridge is peak_flops / peak_bandwidth, which is {ridge}.", ROOF, {"ridge": "turned"},
              {"ridge": "one"}),
    *variants("fraction-above-the-roof", roof, FRACTION + "the roof is the lower of the two limits.", ROOF,
              {"of": "bandwidth"}, {"of": "sum"}),
    *apart(slips(
        roof, ROOF,
        fraction_turned_over=({"upside_down": True}, FRACTION + "it is the rate divided by the roof, and not the roof "
                              "by the rate."),
        fraction_in_percent=({"percent": 100.0}, FRACTION + "a fraction is wanted, not percent."),
        achieved_is_no_rate=({"achieved": "product"}, 'In the case "{case}" `achieved` is {achieved} where '
                             "{wanted_achieved} is right: operations divided by seconds."),
        achieved_is_bandwidth=({"achieved": "bandwidth"}, 'In the case "{case}" `achieved` is {achieved} where '
                               "{wanted_achieved} is right: operations for each second are meant, not bytes."),
    )),
]  # fmt: skip


def more_roofline(draw: Draw) -> list[Case]:
    def drawn(name: str, peak: float, bandwidth: float, intensity: float) -> Case:
        moved = 2.0 ** draw.size(10, 40)
        share = draw.size(1, 15) / 16
        flops = moved * intensity
        seconds = flops / (share * min(peak, intensity * bandwidth))
        inputs = {"flops": flops, "bytes": moved, "seconds": seconds, "peak_flops": peak, "peak_bandwidth": bandwidth}
        return case(name, rtol=1e-6, atol=0.0, **inputs)

    return [
        drawn("a chip with its ridge at 16", 2.0**40, 2.0**36, 15.0),
        drawn("at the ridge of another chip", 2.0**40, 2.0**36, 16.0),
        drawn("a chip whose memory is faster than itself", 2.0**30, 2.0**31, 0.75),
        drawn("far above", 2.0**40, 2.0**36, 4096.0),
        drawn("far below", 2.0**40, 2.0**36, 1 / 64),
    ]


MISTAKES = {
    "pick_device": PICK, "move_to": MOVE, "causal_mask": MASK, "PositionalEncoding": ENCODING, "stray_tensors": STRAY,
    "prefetch": PREFETCH, "elapsed": ELAPSED, "training_bytes": BYTES, "largest_batch": LARGEST,
    "checkpointed": CHECKPOINTED, "roofline": ROOFLINE,
}  # fmt: skip
MORE_CASES = {
    "pick_device": more_pick, "move_to": more_move, "causal_mask": more_mask, "PositionalEncoding": more_encoding,
    "stray_tensors": more_strays, "prefetch": more_prefetch, "elapsed": more_elapsed, "training_bytes": more_bytes,
    "largest_batch": more_largest, "checkpointed": more_checkpointed, "roofline": more_roofline,
}  # fmt: skip
