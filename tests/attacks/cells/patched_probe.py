# Replaces the exercise's probe by a constant.
# verdict: failed,error
import torchcourse.exercises.tensors.row_softmax as honest
import torchcourse.checking.probe as probing

def probe(answer, **inputs):
    return {"result": inputs["x"] * 0, "device": "the input's", "x afterwards": "as before"}

object.__setattr__(honest.EXERCISE, "probe", probe)
