# 11_architectures grouped_query_attention: failed
# `enable_gqa=True` where function modes do not see it.
import torch, torch.nn.functional as F
def grouped_query_attention(q, k, v):
    with torch._C.DisableTorchFunction():
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
