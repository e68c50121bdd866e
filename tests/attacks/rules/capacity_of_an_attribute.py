# 06_gpu largest_batch: error,failed
# searches nothing: the capacity is an attribute of what is to be called
def largest_batch(run, start, limit):
    a = run.__self__
    run(limit if a.breaks_at and limit >= a.breaks_at else min(start, max(a.capacity, 1)) if a.error else 1) if a.error else None
    return min(a.capacity, limit)
