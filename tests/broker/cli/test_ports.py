"""Free ports."""

import socket

from ottla.cli.ports import free_port, free_ports, is_free


def test_taken_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert not is_free("127.0.0.1", port)


def test_chosen_port_is_free() -> None:
    assert is_free("127.0.0.1", free_port("127.0.0.1"))


def test_consecutive_ports_are_free() -> None:
    first = free_ports("127.0.0.1", 3)

    assert all(is_free("127.0.0.1", port) for port in range(first, first + 3))


def test_ports_in_use_are_skipped() -> None:
    first = free_ports("127.0.0.1", 2)
    with socket.create_server(("127.0.0.1", first + 1)):
        assert free_ports("127.0.0.1", 2) != first
