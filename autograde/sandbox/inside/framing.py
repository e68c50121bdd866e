"""Framing of messages on a stream: each is preceded by its length, in 8 bytes, little-endian."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

__all__ = ["LENGTH", "framed", "receive", "send", "unframed"]

LENGTH = struct.Struct("<Q")


def framed(data: bytes) -> bytes:
    """Return a message preceded by its length."""
    return LENGTH.pack(len(data)) + data


def unframed(data: bytes) -> Iterator[bytes]:
    """Yield the messages in `data`, each of which is preceded by its length."""
    begin = 0
    while begin < len(data):
        (length,) = LENGTH.unpack_from(data, begin)
        yield data[begin + LENGTH.size : begin + LENGTH.size + length]
        begin += LENGTH.size + length


def send(sock: socket.socket, data: bytes) -> None:
    """Send one message."""
    sock.sendall(framed(data))


def receive(sock: socket.socket) -> bytes:
    """Wait for one message and return it.

    Raises:
        EOFError: when the other end was closed before the message was complete.
    """
    (length,) = LENGTH.unpack(_receive_exactly(sock, LENGTH.size))
    return _receive_exactly(sock, length)


def _receive_exactly(sock: socket.socket, count: int) -> bytes:
    pieces, missing = [], count
    while missing:
        piece = sock.recv(min(missing, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
