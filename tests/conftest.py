"""For every test: no claim is about wall-clock time, so Hypothesis keeps no deadline and no stopwatch either.

Nodes as processes get their ports from `free_port`, and are started by `launch`.
"""

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 30_000
"""Below the ports that the system hands out to clients: a node's port must be free again when it comes back."""

_candidates = itertools.count(os.getpid() % 500 * 20)


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Return a function that returns a port which nobody listens at, and which it returns to nobody else."""
    return _free_port


def _free_port() -> int:
    for candidate in _candidates:
        port = FIRST_PORT + candidate % (LAST_PORT - FIRST_PORT)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable")


@pytest.fixture(scope="session")
def launch() -> Callable[[Sequence[str], Path], subprocess.Popen[bytes]]:
    """Return a function that starts a command in a session of its own and appends to a file what it says.

    Where there is setpriv, the process is killed when these tests end, however they do: who is killed by a time limit
    cleans up nothing.
    """
    return _launch


def _launch(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    bound: list[str] = []
    if shutil.which("setpriv"):
        # The signal comes when the thread that started the process ends: that is to be the main thread. Who had ended
        # before it was asked for is no parent any more.
        bound = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
    with output.open("ab") as said:
        return subprocess.Popen(
            [*bound, *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
