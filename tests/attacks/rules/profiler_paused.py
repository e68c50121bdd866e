# 01_tensors row_softmax: forbidden,error
# Switches the collection of operators off for a moment.
import torch
from torch._C._profiler import ProfilerActivity
from torch.utils._python_dispatch import _disable_current_modes
def row_softmax(x):
    torch._C._autograd._toggle_collection_dynamic(False, {ProfilerActivity.CPU})
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        y = torch.softmax(x, -1)
    torch._C._autograd._toggle_collection_dynamic(True, {ProfilerActivity.CPU})
    return y
