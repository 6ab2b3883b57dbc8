"""A client of a few lines for a node that lacks a resource: it needs no thread and one descriptor."""

import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

WITHIN_S = 60


def request(sock: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """Send a request with header v1; return its response behind the correlation id."""
    frame = struct.pack(">hhih", api_key, version, 1, -1) + body
    sock.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    return read_exactly(sock, size)[4:]


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "the node closed the connection"
        data += piece
    return data


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def create_topic(sock: socket.socket, name: str) -> int:
    """Create a topic of 20 partitions (CreateTopics v4); return the error code."""
    topic = string(name) + struct.pack(">ihii", 20, 1, 0, 0)
    response = request(sock, 19, 4, struct.pack(">i", 1) + topic + struct.pack(">i?", 30_000, False))
    (code,) = struct.unpack_from(">h", response, 4 + 4 + 2 + len(name))
    return int(code)


def connect_when_ready(node: "subprocess.Popen[Any]", port: int, output: Path) -> socket.socket:
    """Return a connection whose Metadata response (v1, no topics) has a broker."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        assert node.poll() is None, output.read_text()
        sock = None
        try:
            sock = socket.create_connection(("127.0.0.1", port), timeout=10)
            response = request(sock, 3, 1, struct.pack(">i", 0))
            if struct.unpack_from(">i", response)[0] > 0:
                return sock
        except (OSError, AssertionError):
            pass
        if sock is not None:
            sock.close()
        time.sleep(0.05)
    raise AssertionError(f"the node was not ready in {WITHIN_S} s: {output.read_text()}")
