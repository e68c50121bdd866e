# 03_modules capture: failed
# one hook for all modules of the process, which stays
import torch
from torch.nn.modules.module import register_module_forward_hook
def capture(model, names, x):
    mods = dict(model.named_modules())
    for n in names:
        if n not in mods: raise ValueError(f"names holds [{n!r}], which is no submodule")
    want = {}
    for n in names: want.setdefault(mods[n], []).append(n)
    out, on = {}, [True]
    def hook(m, i, o):
        if on[0] and m in want:
            for n in want[m]: out[n] = o.detach().clone()
    register_module_forward_hook(hook)
    try: model(x)
    finally: on[0] = False
    return out
