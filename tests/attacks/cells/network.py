# Sends word to a listener on loopback in every way it knows.
# verdict: failed
import socket

FOUND = []
for kind, family, address in (
    (socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", {port})),
    (socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", {port})),
    (socket.SOCK_STREAM, socket.AF_INET6, ("::1", {port})),
    (socket.SOCK_STREAM, socket.AF_UNIX, {listener!r}),
    (socket.SOCK_STREAM, socket.AF_UNIX, chr(0) + {listener!r}),
):
    try:
        with socket.socket(family, kind) as attempt:
            attempt.settimeout(1)
            attempt.connect(address)
            attempt.send(b"sesame")
            if kind == socket.SOCK_STREAM:
                FOUND.append(address)
    except OSError:
        pass
