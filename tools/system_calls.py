"""Make the filters of system calls in autograde/sandbox/inside/ from the list in autograde/sandbox/system_calls.py.

    python -m tools.system_calls

It needs libseccomp, which grading does not. A filter is a program for the kernel's classic BPF, one for each processor.
"""

from __future__ import annotations

import errno
import itertools
import struct
import tempfile

import pyseccomp

from autograde.sandbox.inside.seccomp import program_path
from autograde.sandbox.system_calls import ALLOWED, CONDITIONS, FIRST_UNKNOWN_CALL, MISSING, PRETENDED, Condition

__all__ = ["PROCESSORS", "make_program"]

PROCESSORS = {"x86_64": pyseccomp.Arch.X86_64, "aarch64": pyseccomp.Arch.AARCH64}
SEEMS_MISSING = pyseccomp.ERRNO(errno.ENOSYS)
DOES_NOTHING = pyseccomp.ERRNO(0)
LOAD_NUMBER, SKIP_UNLESS_AT_LEAST, RETURN = (
    (0x20, 0, 0, 0),
    (0x35, 0, 1, FIRST_UNKNOWN_CALL),
    (0x06, 0, 0, SEEMS_MISSING),
)
"""Instructions that stand before the filter: libseccomp takes no numbers that it does not know."""


def make_program(processor: str) -> bytes:
    """Return the filter for a processor, as the kernel takes it."""
    made = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    wanted = PROCESSORS[processor]
    if pyseccomp.system_arch() != wanted:
        made.add_arch(wanted)
        made.remove_arch(pyseccomp.system_arch())
    made.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.ERRNO(errno.EPERM))
    for name in itertools.chain.from_iterable(group.split() for group in ALLOWED.values()):
        made.add_rule(pyseccomp.ALLOW, name)
    for action, calls in ((pyseccomp.ALLOW, CONDITIONS), (DOES_NOTHING, PRETENDED)):
        for name, conditions in calls.items():
            for each in itertools.product(*map(_comparisons, conditions)):
                made.add_rule(action, name, *each)
    for name in MISSING:
        made.add_rule(SEEMS_MISSING, name)
    before = b"".join(struct.pack("<HBBI", *each) for each in (LOAD_NUMBER, SKIP_UNLESS_AT_LEAST, RETURN))
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return before + file.read()


def _comparisons(condition: Condition) -> list[pyseccomp.Arg]:
    op = pyseccomp.MASKED_EQ
    return [pyseccomp.Arg(condition.argument, op, condition.mask, value) for value in condition.values]


def main() -> None:
    """Write the filter of every processor."""
    for processor in PROCESSORS:
        program_path(processor).write_bytes(make_program(processor))


if __name__ == "__main__":
    main()
