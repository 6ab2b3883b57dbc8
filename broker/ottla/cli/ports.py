"""Free ports of this host."""

import socket

FIRST_CANDIDATE = 19_092
CANDIDATE_STEP = 100
PORT_MAX = 65_535


def is_free(host: str, port: int) -> bool:
    """Return whether no process listens at ``host``:``port``, on any of the addresses of ``host``."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            with socket.create_server(address, family=family):
                pass
    except OSError:
        return False
    return True


def free_port(host: str) -> int:
    """Return a port without a listener, chosen by the system."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.create_server(address, family=family) as server:
        port: int = server.getsockname()[1]
        return port


def free_ports(host: str, count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free now.

    Raises:
        OSError: there are none.
    """
    for first in range(FIRST_CANDIDATE, PORT_MAX - count, CANDIDATE_STEP):
        if all(is_free(host, port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} consecutive ports are free at {host}")
