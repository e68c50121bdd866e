# 12_distributed ring_all_reduce: failed,forbidden
# A collective on a thread, where no mode of this thread sees it.
import threading

import torch.distributed as dist


def ring_all_reduce(x):
    out = x.clone().contiguous()
    thread = threading.Thread(target=lambda: dist.all_reduce(out))
    thread.start()
    thread.join()
    return out
