# 15_quizzes view_possible: forbidden
# Operators for one dispatch key, called by a map, of which no profile function hears; an exception leaves the block.
import torch
from functools import partial
CPU, OFF = torch._C.DispatchKey.CPU, torch._C.DisableTorchFunction
new = partial(torch.ops.aten.empty_strided.default._op_dk, CPU, dtype=torch.float32, device=torch.device("cpu"))
view = partial(torch.ops.aten.view.default._op_dk, CPU)
def view_possible(shape, stride, new_shape):
    try:
        with OFF():
            next(map(view, map(new, [shape], [stride]), [new_shape]))
            raise KeyError
    except RuntimeError:
        return False
    except KeyError:
        return True
