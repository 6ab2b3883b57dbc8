"""A client that exceeds a limit of a node is counted on the metrics page and named in a log line.

Those of sockets and TLS are met in tests/broker/runtime: test_handshakes, test_acceptor, test_unsent_limits.
"""

import logging
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ottla.admin.exposition import node_metrics
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.network.authentication import AUTHENTICATION_MS_MAX
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
    """Send the first bytes of large frames."""
    clients = [running.connect(listener) for _ in range(count)]
    for client in clients:
        client.send_bytes(struct.pack(">ihh", size_bytes, 17, 1))
    return clients


def open_too_many_connections(running: RunningNode) -> None:
    running.connect()
    assert not running.accepts_connection("PLAINTEXT")


def send_too_large_a_request(running: RunningNode) -> None:
    announce(running, "PLAINTEXT", 101 * MIB)


def send_too_large_a_request_before_authentication(running: RunningNode) -> None:
    announce(running, SASL_LISTENER, 512 * 1024 + 1)


def exceed_request_memory(running: RunningNode) -> None:
    announce(running, "PLAINTEXT", 60 * MIB, 3)


def send_too_slowly_while_others_wait(running: RunningNode) -> None:
    exceed_request_memory(running)
    running.run(12_000)


def exceed_authentication_memory(running: RunningNode) -> None:
    announce(running, SASL_LISTENER, 500_000, 100)


def send_too_many_entries(running: RunningNode) -> None:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(1_001)]
    running.connect().send(MetadataRequest(topics=topics), 9)


def stay_idle(running: RunningNode) -> None:
    running.connect()
    running.run(90_000)


def omit_authentication(running: RunningNode) -> None:
    running.connect(SASL_LISTENER)
    running.run(AUTHENTICATION_MS_MAX + 10)


def repeat_api_versions(running: RunningNode) -> None:
    client = running.connect(SASL_LISTENER)
    for _ in range(2):
        client.send(VERSIONS, 3)


def authenticate(running: RunningNode, password: str) -> Client:
    client = running.connect(SASL_LISTENER)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password.encode()), 2)
    return client


def send_a_wrong_password(running: RunningNode) -> None:
    authenticate(running, "wrong")


def reauthenticate_too_soon(running: RunningNode) -> None:
    client = authenticate(running, "secret")
    for _ in range(2):
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)


def exceed_the_session_lifetime(running: RunningNode) -> None:
    client = authenticate(running, "secret")
    running.run(6_000)
    client.send(EVERYTHING, 9)


def connect_too_fast(running: RunningNode) -> None:
    for _ in range(200):
        running.accepts_connection("PLAINTEXT")


@dataclass(frozen=True)
class Limit:
    """How to exceed a limit, and the metric and the log line that report it."""

    exceed: Callable[[RunningNode], None]
    metric: str
    line: str
    labels: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


FAILED = "kafka_server_socket_server_metrics_failed_authentication_total"
REJECTED, CLOSED = "ottla_connections_refused_total", "ottla_connections_closed_for_errors_total"
LIMITS = {
    "max.connections": Limit(
        open_too_many_connections, REJECTED, r"rejected .*max\.connections=1\b", settings={"max.connections": "1"}
    ),
    "max.connections.per.ip": Limit(
        open_too_many_connections,
        REJECTED,
        r"rejected .*max\.connections\.per\.ip=1\b",
        settings={"max.connections.per.ip": "1"},
    ),
    "max.connection.creation.rate": Limit(
        connect_too_fast,
        "ottla_throttles_total",
        r"is throttled .*max\.connection\.creation\.rate",
        labels={"quota": BROKER_CONNECTION_RATE},
        settings={"max.connection.creation.rate": "1"},
    ),
    "socket.request.max.bytes": Limit(send_too_large_a_request, CLOSED, r"more than socket\.request\.max\.bytes="),
    "sasl.server.max.receive.size": Limit(
        send_too_large_a_request_before_authentication,
        CLOSED,
        r"more than sasl\.server\.max\.receive\.size=",
        settings=LOCKED,
    ),
    "ottla.request.entries.max": Limit(
        send_too_many_entries, CLOSED, r"not a request: .*entries", settings={"ottla.request.entries.max": "1000"}
    ),
    "queued.max.request.bytes": Limit(
        exceed_request_memory, "ottla_waits_for_memory_total", r"a request .*waits for memory"
    ),
    "64 KiB in 10 s": Limit(
        send_too_slowly_while_others_wait,
        "ottla_connections_closed_for_slow_requests_total",
        r"closing .*while others wait for memory",
    ),
    "memory of logins": Limit(
        exceed_authentication_memory,
        "ottla_waits_for_sasl_login_memory_total",
        r"a request before authentication .*waits for memory",
        settings=LOCKED,
    ),
    "connections.max.idle.ms": Limit(
        stay_idle,
        "ottla_connections_closed_idle_total",
        r"silent for connections\.max\.idle\.ms=",
        settings={"connections.max.idle.ms": "60000"},
    ),
    "time for a login": Limit(
        omit_authentication,
        "ottla_sasl_logins_timed_out_total",
        r"authentication of .*not complete after",
        settings=LOCKED,
    ),
    "requests before authentication": Limit(
        repeat_api_versions, FAILED, r"authentication of .*API_VERSIONS during SASL", settings=LOCKED
    ),
    "passwords": Limit(
        send_a_wrong_password,
        FAILED,
        r"authentication of .*failed",
        labels={"listener": SASL_LISTENER, "mechanism": "PLAIN"},
        settings=LOCKED,
    ),
    "renewals": Limit(
        reauthenticate_too_soon,
        FAILED,
        r"authentication of .*renewal .*within a second",
        settings=LOCKED | {"connections.max.reauth.ms": "60000"},
    ),
    "connections.max.reauth.ms": Limit(
        exceed_the_session_lifetime,
        "kafka_server_socket_server_metrics_expired_connections_killed_total",
        r"SASL session has expired",
        settings=LOCKED | {"connections.max.reauth.ms": "5000"},
    ),
}


def count(running: RunningNode, limit: Limit) -> float:
    """Return the value of the limit's metric."""
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
def test_exceeded_limit_is_counted_and_logged(world: World, caplog: pytest.LogCaptureFixture, name: str) -> None:
    limit = LIMITS[name]
    running = world.start_node(**limit.settings)
    before = count(running, limit)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        limit.exceed(running)

    assert count(running, limit) > before
    lines = [record.getMessage() for record in caplog.records if re.search(limit.line, record.getMessage())]
    assert lines
    assert all(re.search(r"10\.0\.0\.7|PLAINTEXT", line) for line in lines), "the client or listener is named"
