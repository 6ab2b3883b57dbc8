"""A node with few descriptors is flooded with connections, without a login: it goes on, and so does its disk."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIMIT = 128
CONNECTIONS = 3 * LIMIT
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
    answer = request(sock, 19, 4, struct.pack(">i", 1) + topic + struct.pack(">i?", 30_000, False))
    (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
    return int(code)


@pytest.mark.cluster
@pytest.mark.timeout(120)
def test_flood_of_connections_takes_neither_the_node_nor_its_directory_away(
    tmp_path: Path, free_port: Callable[[], int], bound: list[str]
) -> None:
    port, output = free_port(), tmp_path / "node.out"
    limited = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh"]
    command = [
        *limited,
        *bound,
        sys.executable,
        "-m",
        "ottla",
        "dev",
        "--port",
        str(port),
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with output.open("wb") as said:
        node = subprocess.Popen(command, stdout=said, stderr=said)
    flood: list[socket.socket] = []
    try:
        client = connect_when_ready(node, port, output)
        for _ in range(CONNECTIONS):
            # The system accepts on behalf of a node that does not; beyond its backlog a connection fails.
            with contextlib.suppress(OSError):
                flood.append(socket.create_connection(("127.0.0.1", port), timeout=0.05))
        wait_until_accepted(client)
        codes = [create_topic(client, f"t{number}") for number in range(3)]
        for sock in flood:
            sock.close()
        client.close()
        again = connect_when_ready(node, port, output)
        codes.append(create_topic(again, "after"))
        again.close()
    finally:
        for sock in flood:
            sock.close()
        node.terminate()
        exit_code = node.wait(30)
        shutil.rmtree(tmp_path / "data", ignore_errors=True)

    text = output.read_text()
    assert codes == [0, 0, 0, 0], text
    assert exit_code == 130, text  # what `ottla dev` ends with when it is asked to
    assert "refused a connection" in text
    assert "offline" not in text
    assert "Traceback" not in text


def wait_until_accepted(client: socket.socket) -> None:
    """Wait until the node, which accepts a few connections between requests, has accepted what it can."""
    for _ in range(CONNECTIONS):
        request(client, 3, 1, struct.pack(">i", 0))


def connect_when_ready(node: "subprocess.Popen[Any]", port: int, output: Path) -> socket.socket:
    """Return a connection that Metadata (v1, no topics) answers with a broker."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        assert node.poll() is None, output.read_text()
        sock = None
        try:
            sock = socket.create_connection(("127.0.0.1", port), timeout=10)
            answer = request(sock, 3, 1, struct.pack(">i", 0))
            if struct.unpack_from(">i", answer)[0] > 0:
                return sock
        except (OSError, AssertionError):
            pass
        if sock is not None:
            sock.close()
        time.sleep(0.05)
    raise AssertionError(f"the node with {os.getpid()} as parent was never ready: {output.read_text()}")
