# Text whose methods do as they like, in an exception and in a result.
# verdict: error,failed,crashed
class Text(str):
    strip = split = rstrip = lambda self, *args: self
    __getitem__ = lambda self, key: self
    __contains__ = __eq__ = lambda self, other: True
    __hash__ = str.__hash__

class Raises(ValueError):
    def __str__(self):
        return Text("=HYPERLINK(\"http://127.0.0.1\")\x1b]0;passed\x07<b onclick=alert(1)>" * 50)

def row_softmax(x):
    if x.ndim == 2:
        raise Raises
    return {Text("result"): Text("passed")}
