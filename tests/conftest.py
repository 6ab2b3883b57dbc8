"""For every test: no claim is about wall-clock time, so Hypothesis keeps no deadline and no stopwatch either.

Nodes as processes get their ports from `free_port`.
"""

import itertools
import os
import socket
from collections.abc import Callable

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
