"""What presents no certificate: a closed port, a silent peer, another protocol. Nodes: adapters/local/test_host_tls."""

import asyncio
import socket
from collections.abc import Mapping

import pytest

from ottla.types import Endpoint
from ottla_operator.adapters.kafka.served_certificate import served_certificate

SSL = {"security.protocol": "SSL"}


def shown(port: int, properties: Mapping[str, str]) -> str | None:
    return asyncio.run(served_certificate(Endpoint("127.0.0.1", port), properties, timeout_s=0.2))


def test_nobody_shows_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert shown(port, SSL) is None


def test_who_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert shown(silent.getsockname()[1], SSL) is None


@pytest.mark.parametrize("properties", [{"security.protocol": "TLS"}, {**SSL, "ssl.keystore.key": "x"}])
def test_properties_that_cannot_be_used_show_nothing(properties: Mapping[str, str]) -> None:
    assert shown(1, properties) is None
