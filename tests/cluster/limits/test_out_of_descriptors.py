"""A node with few descriptors is flooded with connections: it keeps serving, and its disk stays online."""

import contextlib
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from starved_node import connect_when_ready, create_topic, request

LIMIT = 128
CONNECTIONS = 3 * LIMIT


@pytest.mark.timeout(120)
def test_connection_flood_stops_neither_the_node_nor_its_log_directory(
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
    assert exit_code == 130, text  # the exit code of `ottla dev` after SIGINT
    assert "rejected a connection" in text
    assert "offline" not in text
    assert "Traceback" not in text


def wait_until_accepted(client: socket.socket) -> None:
    """Wait until the node, which accepts a few connections between requests, has accepted its maximum."""
    for _ in range(CONNECTIONS):
        request(client, 3, 1, struct.pack(">i", 0))
