"""Accepted sockets have the family, type and peer that the system reports, whichever address is listened on."""

import os
import socket
from pathlib import Path

import pytest

from ottla.runtime.link import SocketOptions, endpoint_of, open_listening_socket
from ottla.types import Endpoint

HAS_IPV6_LOOPBACK = not Path("/proc/net").exists() or Path("/proc/net/if_inet6").exists()
IPV6 = pytest.mark.skipif(not HAS_IPV6_LOOPBACK, reason="this system has no IPv6")


@pytest.mark.parametrize(
    ("listens_on", "address", "family"),
    [
        ("127.0.0.1", "127.0.0.1", socket.AF_INET),
        pytest.param("::1", "::1", socket.AF_INET6, marks=IPV6),
        pytest.param("", "::1", socket.AF_INET6, marks=IPV6),
        pytest.param("", "127.0.0.1", socket.AF_INET6, marks=IPV6),
    ],
)
def test_connection_is_accepted_with_its_family_type_and_peer(
    listens_on: str, address: str, family: socket.AddressFamily
) -> None:
    listener = open_listening_socket(listens_on, 0, SocketOptions())
    with listener, socket.create_connection((address, listener.getsockname()[1])) as client:
        accepted, peer = listener.accept()
        with accepted, socket.socket(fileno=os.dup(accepted.fileno())) as queried:
            assert (accepted.family, accepted.type) == (queried.family, queried.type) == (family, socket.SOCK_STREAM)
            assert endpoint_of(peer) == Endpoint(address, client.getsockname()[1])
            accepted.sendall(b"hello")
            assert client.recv(5) == b"hello"
