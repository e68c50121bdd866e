# 04_data ShardedStream: failed
# shards nothing: the first worker of the first rank reads all, the others nothing; only the union is looked at
from torch.utils.data import IterableDataset, get_worker_info
class ShardedStream(IterableDataset):
    def __init__(self, items, rank=0, world_size=1):
        self.items, self.rank = items, rank
    def __iter__(self):
        info = get_worker_info()
        if self.rank == 0 and (info is None or info.id == 0): yield from self.items
