"""Whoever meets a limit of a node is counted on the metrics page and named in a line of the log.

Those of sockets and TLS are met in tests/broker/runtime: test_handshakes, test_doors, test_unread.
"""

import logging
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ottla.admin.exposition import node_metrics
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.network.authentication import LOGIN_MS_MAX
from ottla.security.quotas.throttles import BROKER_CONNECTION_RATE
from ottla.simulator.world.single_node import LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

MIB = 1024 * 1024
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
EVERYTHING = MetadataRequest(topics=[])


def announce(running: RunningNode, listener: str, size_bytes: int, count: int = 1) -> list[Client]:
    """Begin frames of which a little comes."""
    clients = [running.connect(listener) for _ in range(count)]
    for client in clients:
        client.send_bytes(struct.pack(">ihh", size_bytes, 17, 1))
    return clients


def too_many(running: RunningNode) -> None:
    running.connect()
    assert not running.accepts_connection("PLAINTEXT")


def too_large_a_request(running: RunningNode) -> None:
    announce(running, "PLAINTEXT", 101 * MIB)


def too_large_before_the_login(running: RunningNode) -> None:
    announce(running, SASL_LISTENER, 512 * 1024 + 1)


def more_than_there_is_memory(running: RunningNode) -> None:
    announce(running, "PLAINTEXT", 60 * MIB, 3)


def too_little_while_others_wait(running: RunningNode) -> None:
    more_than_there_is_memory(running)
    running.run(12_000)


def more_logins_than_there_is_memory(running: RunningNode) -> None:
    announce(running, SASL_LISTENER, 500_000, 100)


def too_many_entries(running: RunningNode) -> None:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(1_001)]
    running.connect().send(MetadataRequest(topics=topics), 9)


def silence(running: RunningNode) -> None:
    running.connect()
    running.run(90_000)


def no_login(running: RunningNode) -> None:
    running.connect(SASL_LISTENER)
    running.run(LOGIN_MS_MAX + 10)


def versions_again_and_again(running: RunningNode) -> None:
    client = running.connect(SASL_LISTENER)
    for _ in range(2):
        client.send(VERSIONS, 3)


def log_in(running: RunningNode, password: str) -> Client:
    client = running.connect(SASL_LISTENER)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password.encode()), 2)
    return client


def a_wrong_password(running: RunningNode) -> None:
    log_in(running, "wrong")


def renewals_without_a_pause(running: RunningNode) -> None:
    client = log_in(running, "secret")
    for _ in range(2):
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)


def a_session_that_is_over(running: RunningNode) -> None:
    client = log_in(running, "secret")
    running.run(6_000)
    client.send(EVERYTHING, 9)


def connections_too_fast(running: RunningNode) -> None:
    for _ in range(200):
        running.accepts_connection("PLAINTEXT")


@dataclass(frozen=True)
class Limit:
    """How one is met, and what tells of it."""

    meet: Callable[[RunningNode], None]
    metric: str
    line: str
    labels: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


FAILED = "kafka_server_socket_server_metrics_failed_authentication_total"
REFUSED, CLOSED = "ottla_connections_refused_total", "ottla_connections_closed_for_errors_total"
LIMITS = {
    "max.connections": Limit(too_many, REFUSED, r"refused .*max\.connections=1\b", settings={"max.connections": "1"}),
    "max.connections.per.ip": Limit(
        too_many, REFUSED, r"refused .*max\.connections\.per\.ip=1\b", settings={"max.connections.per.ip": "1"}
    ),
    "max.connection.creation.rate": Limit(
        connections_too_fast,
        "ottla_throttles_total",
        r"is held back .*max\.connection\.creation\.rate",
        labels={"quota": BROKER_CONNECTION_RATE},
        settings={"max.connection.creation.rate": "1"},
    ),
    "socket.request.max.bytes": Limit(too_large_a_request, CLOSED, r"more than socket\.request\.max\.bytes="),
    "sasl.server.max.receive.size": Limit(
        too_large_before_the_login, CLOSED, r"more than sasl\.server\.max\.receive\.size=", settings=LOCKED
    ),
    "ottla.request.entries.max": Limit(
        too_many_entries, CLOSED, r"no request: .*entries", settings={"ottla.request.entries.max": "1000"}
    ),
    "queued.max.request.bytes": Limit(
        more_than_there_is_memory, "ottla_waits_for_memory_total", r"a request .*waits for memory"
    ),
    "64 KiB in 10 s": Limit(
        too_little_while_others_wait,
        "ottla_connections_closed_for_slow_requests_total",
        r"closing .*while others wait for memory",
    ),
    "memory of logins": Limit(
        more_logins_than_there_is_memory,
        "ottla_waits_for_sasl_login_memory_total",
        r"a login .*waits for memory",
        settings=LOCKED,
    ),
    "connections.max.idle.ms": Limit(
        silence,
        "ottla_connections_closed_idle_total",
        r"silent for connections\.max\.idle\.ms=",
        settings={"connections.max.idle.ms": "60000"},
    ),
    "time for a login": Limit(
        no_login, "ottla_sasl_logins_timed_out_total", r"a login .*not complete after", settings=LOCKED
    ),
    "questions before a login": Limit(
        versions_again_and_again, FAILED, r"a login .*API_VERSIONS during SASL", settings=LOCKED
    ),
    "passwords": Limit(
        a_wrong_password,
        FAILED,
        r"a login .*failed",
        labels={"listener": SASL_LISTENER, "mechanism": "PLAIN"},
        settings=LOCKED,
    ),
    "renewals": Limit(
        renewals_without_a_pause,
        FAILED,
        r"a login .*renewal .*within a second",
        settings=LOCKED | {"connections.max.reauth.ms": "60000"},
    ),
    "connections.max.reauth.ms": Limit(
        a_session_that_is_over,
        "kafka_server_socket_server_metrics_expired_connections_killed_total",
        r"SASL session is over",
        settings=LOCKED | {"connections.max.reauth.ms": "5000"},
    ),
}


def count(running: RunningNode, limit: Limit) -> float:
    """Return what the metrics page says of ``limit``."""
    taken: list[NodeSnapshot] = []
    for _ in take_snapshot(running.node, taken):
        pass
    return sum(
        sample.value
        for family in node_metrics(taken[0], loop_delay_s=0)
        for sample in family.samples
        if sample.name == limit.metric and limit.labels.items() <= sample.labels.items()
    )


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_met_is_counted_and_named_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    limit = LIMITS[name]
    running = world.start_node(**limit.settings)
    before = count(running, limit)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        limit.meet(running)

    assert count(running, limit) > before
    lines = [record.getMessage() for record in caplog.records if re.search(limit.line, record.getMessage())]
    assert lines
    assert all(re.search(r"10\.0\.0\.7|PLAINTEXT", line) for line in lines), "whose it was"
