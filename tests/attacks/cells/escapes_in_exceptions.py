# Terminal escapes and line breaks in an exception's message.
# verdict: error
def row_softmax(x):
    raise ValueError("\x1b[2J\x1b[1;31mpassed\n\r=cmd|' /C calc'!A0\u202e,\"quoted\"")
