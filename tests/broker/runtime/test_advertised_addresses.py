"""Advertised listeners get the bound port for port 0, and the node's host for an empty host."""

import socket

import pytest

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.runtime.assembly import advertised_addresses, start_thread

NODE = {
    "node.id": "0",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "log.dirs": "/d",
    "listeners": "INSIDE://:9092,OUTSIDE://:9094,CONTROLLER://:9093",
    "advertised.listeners": "INSIDE://inside.example:0,OUTSIDE://:31234",
}


@pytest.mark.parametrize(
    ("named", "advertised"),
    [
        pytest.param({"ottla.advertised.host": "10.0.0.7"}, "10.0.0.7", id="named"),
        pytest.param({}, socket.gethostname(), id="this-machine"),
    ],
)
def test_listener_without_host_advertises_configured_host_or_hostname(named: dict[str, str], advertised: str) -> None:
    config = NodeConfig.from_properties({**NODE, **named})

    inside, outside = advertised_addresses(config, config.listeners)

    assert (outside.host, outside.port) == (advertised, 31_234)
    assert (inside.host, inside.port) == ("inside.example", 9092)


def test_failure_to_start_thread_names_limit_to_raise() -> None:
    def start() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(ConfigurationError, match=r"can't start new thread for the admin pages: raise the limit of pro"):
        start_thread(start, "the admin pages")
