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
    """Return a function that starts a command, `bound`, in a session of its own, and appends to a file what it says."""
    return _launch


@pytest.fixture(scope="session")
def bound() -> list[str]:
    """Return words to put before a command: its process is killed when these tests end, however they do.

    Who is killed by a time limit cleans up nothing. None where there is no setpriv.
    """
    return _bound()


def _launch(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as said:
        return subprocess.Popen(
            [*_bound(), *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )


def _bound() -> list[str]:
    if shutil.which("setpriv") is None:
        return []
    # The signal comes when the thread that started the process ends: that is to be the main thread. Who had ended
    # before it was asked for is no parent any more.
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
