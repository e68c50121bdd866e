"""Hand made-up input to all that reads what strangers write, for as long as one likes.

    python -m benchmarks.fuzz [--minutes 10] [--first 1] [codec submission collect roster grades time]

Each target gets its share of the time, in series of a thousand. The first input that breaks a promise is made as small
as it can be and printed, with the number of its series, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings

from tests.support.fuzz import TARGETS, fuzz

SERIES = 1000


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all, if none is named")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=1, help="the number of the first series")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of libraries, on odd input
    targets = chosen.targets or list(TARGETS)
    broken = [name for name in targets if not _holds(name, 60 * chosen.minutes / len(targets), chosen.first)]
    return int(bool(broken))


def _holds(target: str, seconds: float, first: int) -> bool:
    """Try one target for a while; return whether nothing broke."""
    end, number = time.monotonic() + seconds, first
    while time.monotonic() < end:
        try:
            fuzz(target, SERIES, number)
        except Exception:
            print(f"{target}: series {number} found this", traceback.format_exc(), sep="\n", flush=True)
            return False
        number += 1
    print(f"{target}: {(number - first) * SERIES} inputs, nothing broke", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
