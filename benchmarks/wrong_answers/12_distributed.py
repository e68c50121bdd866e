# %% launch_info: hardcoded-nccl, global-rank-as-device
def launch_info(environ, cuda_count):
    rank = int(environ.get("RANK", 0))
    return {
        "rank": rank,
        "local_rank": int(environ.get("LOCAL_RANK", 0)),
        "world_size": int(environ.get("WORLD_SIZE", 1)),
        "device": torch.device("cuda", rank),
        "backend": "nccl",
    }


# %% launch_info: fails-without-torchrun, strings-as-numbers
def launch_info(environ, cuda_count):
    own = int(environ["LOCAL_WORLD_SIZE"]) <= cuda_count
    return {
        "rank": environ["RANK"],
        "local_rank": environ["LOCAL_RANK"],
        "world_size": environ["WORLD_SIZE"],
        "device": torch.device("cuda", int(environ["LOCAL_RANK"])) if own else torch.device("cpu"),
        "backend": "nccl" if own else "gloo",
    }


# %% zero_bytes: rounds-down, forgets-master-weights
def zero_bytes(num_params, world_size, *, stage, param_dtype=torch.bfloat16):
    share = num_params // world_size
    return (
        (num_params if stage < 3 else share) * param_dtype.itemsize
        + (num_params if stage < 2 else share) * param_dtype.itemsize
        + (num_params if stage < 1 else share) * 8
    )


# %% shard_indices: reseeds-global-rng, unequal-shares
def shard_indices(n, rank, world_size, *, epoch, seed, drop_last=False):
    torch.manual_seed(seed + epoch)
    return torch.randperm(n).tolist()[rank::world_size]
