# Says seven megabytes of observations in each case of some exercises: none too much, but all together.
# verdict: failed,memory
import torchcourse.checking.probe as probing

_observe_first = probing.observe_first

def heavy(exercise, answer, case, *device, **how):
    seen = _observe_first(exercise, answer, case, *device, **how)
    if exercise.name not in ("describe", "row_softmax", "standardize", "one_hot"):
        return seen
    return lambda: {**seen(), "more": torch.zeros(7 << 20, dtype=torch.uint8)}

probing.observe_first = heavy
