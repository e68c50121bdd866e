# 15_quizzes broadcast_shape: failed
# the name of the module that a built-in function is said to be of
import torch

LEFT = []


class Name(str):
    def __eq__(self, other):
        if LEFT and isinstance(LEFT[-1], list):
            try:
                LEFT.append(tuple(torch.broadcast_shapes(*LEFT.pop())))
            except RuntimeError:
                LEFT.append(None)
        return False

    def __hash__(self):
        return 1


add = [].append
add.__module__ = Name("x")


def broadcast_shape(*shapes):
    LEFT.append(list(shapes))
    add(1)
    if LEFT[-1] is None:
        raise ValueError
    return LEFT.pop()
