"""The protocol of the reactor's tests: lines, echoed."""

import socket

from ottla.ports import Chunk

LINE = b"\n"


def echo(line: bytes) -> list[Chunk]:
    return [line + LINE]


def read_all(sock: socket.socket, size_bytes: int) -> bytes:
    """Return the next ``size_bytes`` bytes; fewer if the peer closes the connection before."""
    data = bytearray()
    while len(data) < size_bytes and (piece := sock.recv(65536)):
        data += piece
    return bytes(data)
