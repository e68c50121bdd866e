# An exception with a class of the learner's own, whose name could carry anything that the process knows.
# verdict: error
raise type("sesame", (Exception,), {})
