"""Listeners, security protocols and voters in Kafka's notation."""

import pytest

from ottla.config.listeners import (
    Listener,
    QuorumVoter,
    parse_bootstrap_servers,
    parse_listeners,
    parse_security_protocol_map,
    parse_voters,
    require_distinct_ports,
)
from ottla.errors import ConfigurationError
from ottla.types import Endpoint

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "EXTERNAL": "SASL_SSL"}


@pytest.mark.parametrize(
    ("entry", "listener"),
    [
        pytest.param("PLAINTEXT://:9092", Listener("PLAINTEXT", "PLAINTEXT", "", 9092), id="every-address"),
        pytest.param("external://h.x:0", Listener("EXTERNAL", "SASL_SSL", "h.x", 0), id="any-port-and-lower-case"),
        pytest.param("PLAINTEXT://[::1]:65535", Listener("PLAINTEXT", "PLAINTEXT", "::1", 65535), id="ipv6"),
    ],
)
def test_listener_is_parsed(entry: str, listener: Listener) -> None:
    assert parse_listeners("listeners", [entry], PROTOCOLS) == (listener,)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param(["foo"], "'foo'; each entry is LISTENER_NAME://host:port", id="no-listener"),
        pytest.param(["PLAINTEXT://h"], "each entry is", id="no-port"),
        pytest.param(["FOO://:1"], "No security protocol defined for listener FOO", id="unknown-name"),
        pytest.param(["PLAINTEXT://:65536"], "a port is 0 to 65535", id="port-too-large"),
        pytest.param(["PLAINTEXT://:-1"], "a port is 0 to 65535", id="port-below-zero"),
        pytest.param(["PLAINTEXT://:1", "PLAINTEXT://:2"], "must have a different name", id="name-twice"),
    ],
)
def test_bad_listener_is_rejected(entries: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_listeners("listeners", entries, PROTOCOLS)


def test_one_port_may_be_shared_by_ipv4_and_ipv6() -> None:
    require_distinct_ports([Listener("A", "PLAINTEXT", "127.0.0.1", 9), Listener("B", "PLAINTEXT", "::1", 9)])


def test_one_port_may_not_be_shared_otherwise() -> None:
    with pytest.raises(ConfigurationError, match="different port"):
        require_distinct_ports([Listener("A", "PLAINTEXT", "", 9), Listener("B", "PLAINTEXT", "::1", 9)])


def test_port_zero_may_be_shared() -> None:
    require_distinct_ports([Listener("A", "PLAINTEXT", "", 0), Listener("B", "PLAINTEXT", "", 0)])


def test_security_protocol_map_is_parsed() -> None:
    assert parse_security_protocol_map("a:plaintext, B:SSL") == {"A": "PLAINTEXT", "B": "SSL"}


@pytest.mark.parametrize("text", ["A", "A:FOO", ":SSL"], ids=["no-protocol", "unknown-protocol", "no-name"])
def test_bad_security_protocol_map_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"listener\.security\.protocol\.map"):
        parse_security_protocol_map(text)


def test_voters_are_sorted_and_the_last_of_two_duplicates_counts() -> None:
    voters = parse_voters(["2@b:9093", "1@a:9093", "2@[::1]:1"])

    assert voters == (QuorumVoter(1, Endpoint("a", 9093)), QuorumVoter(2, Endpoint("::1", 1)))


@pytest.mark.parametrize("entry", ["x", "1@h", "@h:1", "-1@h:1", "1@0.0.0.0:1", "1@h:65536"])
def test_bad_voter_is_rejected(entry: str) -> None:
    with pytest.raises(ConfigurationError, match=r"controller\.quorum\.voters"):
        parse_voters([entry])


def test_bad_bootstrap_server_names_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"my\.key"):
        parse_bootstrap_servers("my.key", ["nowhere"])
