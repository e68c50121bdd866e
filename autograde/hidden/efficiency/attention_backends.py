"""The exercise `attention_backends`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.attention_backends import NAMES, call_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "MATH takes every call that is right at all, so it goes first and unguarded: what it raises is the caller's error. "
    "The others may refuse. Asking by a real call is the only answer that stays true when PyTorch, the device or the "
    "mask changes, and `sdpa_kernel` gives the setting back."
)
"""Why the reference is written as it is."""
REQUIRED = ("assumes-by-device", "hides-shape-errors", "leaves-setting")
"""The mistakes that a check must always be able to name."""

READ = "Which kernel does it"
SWITCHES = {
    "MATH": torch.backends.cuda.enable_math_sdp, "FLASH_ATTENTION": torch.backends.cuda.enable_flash_sdp,
    "EFFICIENT_ATTENTION": torch.backends.cuda.enable_mem_efficient_sdp,
    "CUDNN_ATTENTION": torch.backends.cuda.enable_cudnn_sdp,
}  # fmt: skip
ON = {
    "MATH": torch.backends.cuda.math_sdp_enabled, "FLASH_ATTENTION": torch.backends.cuda.flash_sdp_enabled,
    "EFFICIENT_ATTENTION": torch.backends.cuda.mem_efficient_sdp_enabled,
    "CUDNN_ATTENTION": torch.backends.cuda.cudnn_sdp_enabled,
}  # fmt: skip


def call(backends: Any, q: Tensor, k: Tensor, v: Tensor, options: Any) -> None:
    with sdpa_kernel(backends):
        F.scaled_dot_product_attention(q, k, v, **options)


def takes(name: str, q: Tensor, k: Tensor, v: Tensor, options: Any) -> bool:
    try:
        call(getattr(SDPBackend, name), q, k, v, options)
    except RuntimeError:
        return False
    return True


def right(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    return sorted(name for name in NAMES if takes(name, q, k, v, options))


def by_device(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    return sorted(["FLASH_ATTENTION", "MATH"] if q.device.type == "cpu" else NAMES)


def only_math_on_cpu(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    return ["MATH"] if q.device.type == "cpu" else right(q, k, v, **options)


def by_rules(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    fast = not options.get("dropout_p") and options.get("attn_mask") is None
    return ["FLASH_ATTENTION", "MATH"] if fast else ["MATH"]


def hides_errors(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return sorted(name for name in NAMES if takes(name, q, k, v, options))


def error_of_all(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    found = hides_errors(q, k, v, **options)
    if not found:
        call(SDPBackend.MATH, q, k, v, options)
    return found


def every_error(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    for name in NAMES:
        call(getattr(SDPBackend, name), q, k, v, options)
    return sorted(NAMES)


def beside_math(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    for name in NAMES:
        call([getattr(SDPBackend, name), SDPBackend.MATH], q, k, v, options)
    return sorted(NAMES)


def leaves_setting(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    found = []
    for name in NAMES:
        for other, switch in SWITCHES.items():
            switch(other == name)
        with contextlib.suppress(RuntimeError):
            F.scaled_dot_product_attention(q, k, v, **options)
            found.append(name)
    if "MATH" not in found:
        call(SDPBackend.MATH, q, k, v, options)
    return sorted(found) if "MATH" in found else []


def switches_all_on(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    found = right(q, k, v, **options)
    for switch in SWITCHES.values():
        switch(True)
    return found


def within_setting(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return [name for name in right(q, k, v, **options) if ON[name]()]  # type: ignore[no-untyped-call]


def tries_those_on(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    on = [name for name in NAMES[1:] if ON[name]()]  # type: ignore[no-untyped-call]
    return sorted(["MATH", *(name for name in on if takes(name, q, k, v, options))])


def asks_plainly_first(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    F.scaled_dot_product_attention(q, k, v, **options)
    return right(q, k, v, **options)


def without_options(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    right(q, k, v, **options)
    return right(q, k, v)


def in_float32(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return right(q.float(), k.float(), v.float(), **options)


def of_the_first_sequence(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return right(q[:1], k[:1], v[:1], **options)


def of_the_first_head(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return right(q[:, :1], k[:, :1], v[:, :1], **options)


def of_contiguous_keys_and_values(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return right(q, k.contiguous(), v.contiguous(), **options)


def unsorted(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return [name for name in NAMES if name in right(q, k, v, **options)]


def first_only(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return right(q, k, v, **options)[:1]


def all_members(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    call(SDPBackend.MATH, q, k, v, options)
    return sorted(
        name for name in SDPBackend.__members__
        if (q.device.type != "cpu" and name not in NAMES) or takes(name, q, k, v, options)
    )  # fmt: skip


def members(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[Any]:
    return [getattr(SDPBackend, name) for name in right(q, k, v, **options)]


def lower_case(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return [name.lower() for name in right(q, k, v, **options)]


def with_prefix(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    return [f"SDPBackend.{name}" for name in right(q, k, v, **options)]


NAMED = 'In the case "{case}" the outcome is {names} where {want_names} is wanted: '
SETTING = 'In the case "{case}" the call left {setting} switched on; the setting should be {want}. '
MISTAKES = [
    Mistake("assumes-by-device", by_device, NAMED + "the device alone does not decide; dropout, a mask or strides can "
            "make a backend refuse.", READ),
    Mistake("assumes-by-device", only_math_on_cpu, NAMED + "the CPU has a flash kernel too.", READ),
    Mistake("math-allowed-beside", beside_math, NAMED + "no backend ever refused. MATH takes over what another "
            "refuses, if both are allowed; allow one at a time.", READ),
    Mistake("assumes-by-rules", by_rules, NAMED + "a rule about options is not what PyTorch goes by. Some masks are "
            "taken, and strides or the device can make a backend refuse.", READ),
    Mistake("hides-shape-errors", hides_errors, NAMED + "every RuntimeError was taken for a refusal, but a wrong shape "
            "raises a RuntimeError, too.", READ),
    Mistake("raises-only-if-none-accepts", error_of_all, NAMED + "a fast kernel checks less and let a wrong call "
            "through. What MATH raises is an error of the call, whatever the others say.", READ),
    Mistake("raises-on-refusal", every_error, 'In the case "{case}" the call ended with {names}: a backend that '
            "refuses raises an error. Catch it and leave that name out.", READ),
    Mistake("leaves-setting", leaves_setting, SETTING + "Switches that are thrown stay thrown; `sdpa_kernel` restores "
            "the old setting.", READ),
    Mistake("leaves-setting", switches_all_on, SETTING + "In the end all were switched on, whatever was on before.",
            READ),
    Mistake("obeys-the-setting", within_setting, NAMED + "what was switched on at the time of the call was taken into "
            "account.",
            READ),
    Mistake("obeys-the-setting", tries_those_on, NAMED + "besides MATH, only the backends that were switched on at the "
            "time of the call were tried.", READ),
    Mistake("obeys-the-setting", asks_plainly_first, NAMED + "the first call ran under the caller's setting, which may "
            "allow only a backend that refuses.", READ),
    Mistake("ignores-options", without_options, NAMED + "the question was asked without the options.", READ),
    Mistake("asks-about-another-dtype", in_float32, NAMED + "the tensors were cast first, but a dtype that does not "
            "fit is an error of the call.", READ),
    *(Mistake("asks-about-a-part", program, NAMED + "only a part of the batch or of the heads was tried, and "
              "whether the whole fits together was never asked.", READ) for program in
      (of_the_first_sequence, of_the_first_head)),
    Mistake("asks-about-other-strides", of_contiguous_keys_and_values, NAMED + "contiguous copies were tried, but "
            "strides can make a backend refuse.", READ),
    Mistake("unsorted", unsorted, NAMED + "the names are wanted in alphabetical order.", READ),
    Mistake("first-only", first_only, NAMED + "all backends that accept are wanted, not one.", READ),
    Mistake("every-member", all_members, NAMED + "`ERROR` and another one are members of the enum, but no kernels.",
            READ),
    Mistake("members-not-names", members, NAMED + "these are the members of the enum; the text of each is its "
            "`name`.", READ),
    Mistake("other-names", lower_case, NAMED + "the names are those of the members, as they are written.", READ),
    Mistake("other-names", with_prefix, NAMED + "the `name` of a member has no prefix.", READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    t = draw.size(3, 7)
    half = torch.bfloat16
    return [
        call_case(draw, "bfloat16", t=t, dtype=half, has=[draw.pick(NAMES[1:]), "MATH"]),
        call_case(draw, "a float mask", t=t, of={"attn_mask": draw.normal(t, t)}),
        call_case(draw, "dropout while only FLASH_ATTENTION is on", t=t, of={"dropout_p": 0.1},
                  setting=["FLASH_ATTENTION"], has=["MATH", "EFFICIENT_ATTENTION"]),
        call_case(draw, "a scale", t=t, of={"scale": 0.3}, setting=["EFFICIENT_ATTENTION", "MATH"]),
        call_case(draw, "a mask and causal", t=t, of={"attn_mask": torch.ones(t, t) > 0, "is_causal": True}),
    ]  # fmt: skip


# Right answers unlike the reference


def by_message(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    with sdpa_kernel([SDPBackend.MATH]):
        torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    accepted = {"MATH"}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        try:
            with sdpa_kernel([backend]):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        except RuntimeError as error:
            if "No viable backend" not in str(error) and "No available kernel" not in str(error):
                raise
        else:
            accepted.add(backend.name)
    return sorted(accepted)


def by_switches(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[str]:
    before = {name: on() for name, on in ON.items()}  # type: ignore[no-untyped-call]
    found, failure = [], None
    try:
        for name in sorted(NAMES):
            for other, switch in SWITCHES.items():
                switch(other == name)
            try:
                F.scaled_dot_product_attention(q, k, v, **options)
                found.append(name)
            except RuntimeError as error:
                failure = error if name == "MATH" else failure
    finally:
        for name, state in before.items():
            SWITCHES[name](state)
    if failure is not None:
        raise failure
    return found


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_message, by_switches]
