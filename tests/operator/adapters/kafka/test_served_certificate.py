"""No certificate: closed port, silent peer, another protocol. Of nodes: adapters/local/test_host_tls."""

import asyncio
import socket
from collections.abc import Mapping

import pytest

from ottla.types import Endpoint
from ottla_operator.adapters.kafka.served_certificate import served_certificate

SSL = {"security.protocol": "SSL"}


def shown(port: int, properties: Mapping[str, str]) -> str | None:
    return asyncio.run(served_certificate(Endpoint("127.0.0.1", port), properties, timeout_s=0.2))


def test_closed_port_presents_no_certificate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert shown(port, SSL) is None


def test_silent_peer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert shown(silent.getsockname()[1], SSL) is None


@pytest.mark.parametrize("properties", [{"security.protocol": "TLS"}, {**SSL, "ssl.keystore.key": "x"}])
def test_invalid_properties_present_no_certificate(properties: Mapping[str, str]) -> None:
    assert shown(1, properties) is None
