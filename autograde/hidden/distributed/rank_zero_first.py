"""The exercise `rank_zero_first`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from autograde.source.mistakes import Mistake
from torchcourse.exercises.distributed.rank_zero_first import LASTS
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The broadcast is the meeting point and the message in one: the others wait in it, and learn from it whether rank "
    "0 got through. `finally` sends it whatever happens, so no exception can leave the others waiting, and rank 0's "
    "own exception goes on its way as if nothing had been sent."
)
"""Why the reference is written as it is."""
REQUIRED = ("runs-at-once", "only-rank-zero-returns", "hangs-on-error")
"""The mistakes that a check must always be able to name."""

Fn = Callable[[], Any]
FIRST = "One rank first"


def tell(failed: bool) -> bool:
    """Send from rank 0 whether it failed, or receive that."""
    flag = torch.tensor([float(failed)])
    dist.broadcast(flag, 0)
    return bool(flag.item())


def right(fn: Fn) -> Any:
    if dist.get_rank() == 0:
        failed = True
        try:
            result = fn()
            failed = False
            return result
        finally:
            tell(failed)
    if tell(False):
        raise RuntimeError("rank 0 failed")
    return fn()


def at_once(fn: Fn) -> Any:
    return fn()


def barrier_before(fn: Fn) -> Any:
    dist.barrier()
    return fn()


def barrier_after(fn: Fn) -> Any:
    result = fn()
    dist.barrier()
    return result


def at_once_then_told(fn: Fn) -> Any:
    result, error = None, None
    try:
        result = fn()
    except Exception as caught:
        error = caught
    failed_there = tell(error is not None)
    if error is not None:
        raise error
    if failed_there:
        raise RuntimeError("rank 0 failed")
    return result


def others_first(fn: Fn) -> Any:
    if dist.get_rank() == 0:
        dist.barrier()
        return fn()
    try:
        return fn()
    finally:
        dist.barrier()


def tells_rank_one(fn: Fn) -> Any:
    """Send the news to rank 1 alone."""
    ok = torch.ones(1)
    if dist.get_rank() == 0:
        try:
            return fn()
        except BaseException:
            ok.zero_()
            raise
        finally:
            dist.send(ok, 1)
    dist.recv(ok, 0)
    if not ok.item():
        raise RuntimeError("rank 0 failed")
    return fn()


def rank_zero_alone(fn: Fn) -> Any:
    """Call the function on rank 0 only; the others get nothing."""
    result = None
    failed = dist.get_rank() == 0
    try:
        if dist.get_rank() == 0:
            result = fn()
            failed = False
    finally:
        failed_there = tell(failed)
    if failed_there:
        raise RuntimeError("rank 0 failed")
    return result


def rank_zeros_result_for_all(fn: Fn) -> Any:
    box: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            box = [fn(), None]
        except Exception as error:
            box = [None, str(error)]
            raise
        finally:
            dist.broadcast_object_list(box, 0)
        return box[0]
    dist.broadcast_object_list(box, 0)
    if box[1] is not None:
        raise RuntimeError(box[1])
    return box[0]


def others_return_nothing(fn: Fn) -> Any:
    if dist.get_rank() == 0:
        return right(fn)
    right(fn)
    return None


def barriers_only(fn: Fn) -> Any:
    if dist.get_rank() != 0:
        dist.barrier()
    result = fn()
    if dist.get_rank() == 0:
        dist.barrier()
    return result


def goes_on_after_an_error(fn: Fn) -> Any:
    if dist.get_rank() == 0:
        try:
            return fn()
        finally:
            dist.barrier()
    dist.barrier()
    return fn()


def nothing_after_an_error(fn: Fn) -> Any:
    if dist.get_rank() == 0:
        return right(fn)
    return None if tell(False) else fn()


def swallows(fn: Fn) -> Any:
    try:
        return right(fn)
    except Exception:
        return None


def another_exception(fn: Fn) -> Any:
    try:
        return right(fn)
    except Exception as error:
        raise RuntimeError(f"failed: {error}") from None


def twice_on_rank_zero(fn: Fn) -> Any:
    result = right(fn)
    return fn() if dist.get_rank() == 0 else result


def exception_anew(fn: Fn) -> Any:
    try:
        return right(fn)
    except Exception as error:
        raise type(error)(*error.args) from None


def results_collected(fn: Fn) -> Any:
    box = [None] * dist.get_world_size()
    dist.all_gather_object(box, right(fn))
    return box[dist.get_rank()]


def others_call(fn: Fn, otherwise: Fn) -> Any:
    """Call the function after rank 0, and `otherwise` where it raises on another rank."""
    if dist.get_rank() == 0:
        return right(fn)
    if tell(False):
        raise RuntimeError("rank 0 failed")
    try:
        return fn()
    except Exception:
        return otherwise()


def others_swallow(fn: Fn) -> Any:
    return others_call(fn, lambda: None)


def others_try_again(fn: Fn) -> Any:
    return others_call(fn, fn)


def ends_the_group(fn: Fn) -> Any:
    if dist.get_rank() != 0:
        dist.barrier()
        return fn()
    try:
        result = fn()
    except Exception:
        dist.destroy_process_group()
        raise
    dist.barrier()
    return result


def tells_the_message(fn: Fn) -> Any:
    """Take an exception without a message for none."""
    box = [""]
    if dist.get_rank() == 0:
        try:
            return fn()
        except Exception as error:
            box[0] = str(error)
            raise
        finally:
            dist.broadcast_object_list(box, 0)
    dist.broadcast_object_list(box, 0)
    if box[0]:
        raise RuntimeError(box[0])
    return fn()


def takes_none_for_a_failure(fn: Fn) -> Any:
    if dist.get_rank():
        return right(fn)
    result = None
    try:
        result = fn()
        return result
    finally:
        tell(result is None)


AT_ONCE = (
    'In the case "{case}" the order was: {order}. Nothing made the others wait until rank 0 was through: after a '
    "barrier in front of the call all start together."
)
RESULTS = 'In the case "{case}" the calls gave {result0} on rank 0 and {result1} on rank 1: '
AFTER_ERROR = 'In the case "{case}" rank 1 came back with {result1} after {calls1} calls of its own: '
MISTAKES = [
    Mistake("runs-at-once", at_once, AT_ONCE, FIRST),
    Mistake("runs-at-once", barrier_before, AT_ONCE, FIRST),
    Mistake("runs-at-once", barrier_after, 'In the case "{case}" the order was: {order}. The barrier stands after the '
            "call on all ranks, so nobody waits before it.", FIRST),
    Mistake("runs-at-once", at_once_then_told, 'In the case "{case}" the order was: {order}. All ranks called `fn` and '
            "heard of rank 0 afterwards; they have to hear of it first.", FIRST),
    Mistake("others-first", others_first, 'In the case "{case}" the order was: {order}. Rank 0 goes first.', FIRST),
    Mistake("only-rank-zero-returns", rank_zero_alone, RESULTS + "the others call `fn` as well, after rank 0, for what "
            "each of them needs.", FIRST),
    Mistake("only-rank-zero-returns", others_return_nothing, RESULTS + "each rank returns the result of its own call.",
            FIRST),
    Mistake("shares-rank-zeros-result", rank_zeros_result_for_all, RESULTS + "rank 1 wanted its own, {right1}, and got "
            "rank 0's.", FIRST),
    Mistake("hangs-on-error", barriers_only, 'In the case "{case}" rank 1 is '
            "{ended1}. Rank 0 raised and never came to the call in which the others wait.", FIRST),
    Mistake("tells-rank-1-only", tells_rank_one, 'In the case "{case}" rank {who} is {ended}. Rank 0 told rank 1 only. '
            "There may be any number of ranks, and a broadcast reaches them all.", FIRST),
    Mistake("others-go-on-after-an-error", goes_on_after_an_error, AFTER_ERROR + "rank 0 had failed, so it should "
            "raise without calling `fn`.", FIRST),
    Mistake("nothing-after-an-error", nothing_after_an_error, AFTER_ERROR + "rank 0 had failed, so it should raise "
            "too; it went on with nothing.", FIRST),
    Mistake("swallows-the-error", swallows, RESULTS + "rank 0's call raised, and nobody was told.", FIRST),
    Mistake("replaces-the-exception", another_exception, RESULTS + "rank 0 raises its own exception, and the caller "
            "may be looking for that.", FIRST),
    Mistake("replaces-the-exception", exception_anew, RESULTS + "rank 0 raises the very exception that its call "
            "raised, with all it carries, and not another one of its type.", FIRST),
    Mistake("copies-the-results", results_collected, 'In the case "{case}" a rank got a copy of what its call '
            "returned: results were sent between the ranks, and each needs only its own.", FIRST),
    Mistake("swallows-the-others-errors", others_swallow, 'In the case "{case}" rank 1 came back with {result1}: '
            "its own call had raised, and nobody was told.", FIRST),
    Mistake("tries-again", others_try_again, 'In the case "{case}" rank 1 made {calls1} calls where one is wanted: a '
            "call that raises is not repeated.", FIRST),
    Mistake("ends-the-group", ends_the_group, 'In the case "{case}" the calls gave {result0} on rank 0 and {result1} '
            "on rank 1: after the first call the process group was gone, so every later call failed.", FIRST),
    Mistake("others-go-on-after-an-error", tells_the_message, AFTER_ERROR + "rank 0 had raised an exception without a "
            "message, and the empty message was taken for success.", FIRST),
    Mistake("takes-none-for-a-failure", takes_none_for_a_failure, RESULTS + "rank 0's call had returned None, and that "
            "was taken for a failure. A call may have no result.", FIRST),
    Mistake("calls-twice", twice_on_rank_zero, 'In the case "{case}" '
            "the number of {what} is {got} where {want} is wanted: each rank calls `fn` once.", FIRST),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("results that are false", values=[0, ""], seconds=LASTS, fails=[None], message=""),
        case("three ranks, rank 0 fails, drawn", values=[draw.size(1, 9), None, 0], seconds=LASTS, fails=[0, 0],
             message="no"),
    ]  # fmt: skip


# Right answers unlike the reference


def first_by_objects(fn: Fn) -> Any:
    error: BaseException | None = None
    result = None
    if dist.get_rank() == 0:
        try:
            result = fn()
        except BaseException as caught:
            error = caught
    box = [None if error is None else repr(error)]
    dist.broadcast_object_list(box, src=0)
    if error is not None:
        raise error
    if box[0] is not None:
        raise RuntimeError(f"rank 0: {box[0]}")
    return result if dist.get_rank() == 0 else fn()


def first_by_a_sum(fn: Fn) -> Any:
    ok = torch.ones((), dtype=torch.int64)
    try:
        result = fn() if dist.get_rank() == 0 else None
    except Exception:
        dist.all_reduce(ok * 0, op=dist.ReduceOp.MIN)
        raise
    dist.all_reduce(ok, op=dist.ReduceOp.MIN)
    if not ok:
        raise ChildProcessError
    if dist.get_rank() > 0:
        result = fn()
    return result


def first_by_messages(fn: Fn) -> Any:
    """Send each of the others one number."""
    others = range(1, dist.get_world_size())
    news = torch.zeros(1, dtype=torch.uint8)
    if dist.get_rank() > 0:
        dist.recv(news, 0)
        if news[0] == 0:
            raise RuntimeError("no go")
        return fn()
    try:
        found = fn()
        news += 1
    finally:
        for other in others:
            dist.send(news, other)
    return found


def first_by_its_exception(fn: Fn) -> Any:
    """Raise rank 0's exception on the others too."""
    box: list[Exception | None] = [None]
    if dist.get_rank() == 0:
        try:
            return fn()
        except Exception as error:
            box = [error]
            raise
        finally:
            dist.broadcast_object_list(box, 0)
    dist.broadcast_object_list(box, 0)
    if box[0] is not None:
        raise box[0]
    return fn()


def first_and_all_through(fn: Fn) -> Any:
    """Wait at the end until all are through."""
    result = right(fn)
    dist.barrier()
    return result


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    first_by_objects, first_by_a_sum, first_by_messages, first_by_its_exception, first_and_all_through,
]  # fmt: skip
