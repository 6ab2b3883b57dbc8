"""What clients are told to dial, of listeners that do not say it all themselves."""

import socket

import pytest

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.runtime.assembly import addresses_told, start_thread

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
    ("named", "told"),
    [
        pytest.param({"ottla.advertised.host": "10.0.0.7"}, "10.0.0.7", id="named"),
        pytest.param({}, socket.gethostname(), id="this-machine"),
    ],
)
def test_listener_without_a_host_is_at_the_advertised_host(named: dict[str, str], told: str) -> None:
    config = NodeConfig.from_properties({**NODE, **named})

    inside, outside = addresses_told(config, config.listeners)

    assert (outside.host, outside.port) == (told, 31_234)
    assert (inside.host, inside.port) == ("inside.example", 9092)


def test_node_that_cannot_start_its_threads_says_what_to_raise() -> None:
    def start() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(ConfigurationError, match=r"can't start new thread for the admin pages: raise the limit of pro"):
        start_thread(start, "the admin pages")
