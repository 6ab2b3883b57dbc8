"""A node in memory as the target of fuzzed frames, with checks of its responses, its state and its log."""

import logging
import struct
from dataclasses import dataclass
from typing import Any

import pytest

from fuzz_values import CORRELATION_ID, TOPIC
from ottla.errors import ProtocolError
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, is_served_to
from ottla.purgatory.steps import run_to_end
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import Uuid
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.registry import ApiKey, response_header_version, response_type

LISTENERS = {ListenerRole.BROKER: "PLAINTEXT", ListenerRole.CONTROLLER: "CONTROLLER"}
LINE_CHARACTERS_MAX = 4_000
LOCKED = "LOCKED"
NO_PERMISSIONS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:admin",
}
WITH_SASL = {
    "listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094,CONTROLLER://localhost:9093",
    "advertised_listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094",
    "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LOCKED}:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-512",
}


@dataclass
class Target:
    """A node with a topic, replaced when a request has legitimately shut it down or deleted its topic."""

    running: RunningNode
    topic_id: Uuid

    @classmethod
    def new(cls, seed: int, **settings: str) -> "Target":
        """Return a node with a topic, started again with ``settings``."""
        world = World(seed)
        running = world.start_node()
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
        running.connect().ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 7)
        running.run_until(lambda: len(running.node.replicas) == 3)
        topic_id = running.node.metadata.topic_id(TOPIC)
        assert topic_id is not None
        if settings:
            running.node.begin_shutdown()
            running.run_until(lambda: bool(running.stopped))
            running.node.close()
            running = world.start_node(**settings)
        return cls(running, topic_id)

    @property
    def is_intact(self) -> bool:
        node = self.running.node
        return not self.running.stopped and not node.readiness() and node.metadata.topic_id(TOPIC) == self.topic_id

    def state(self) -> tuple[Any, ...]:
        """Return the state that a rejected request must not change."""
        node = self.running.node
        return (
            node.raft.log_end_offset,
            sorted((partition.topic_partition, partition.log.log_end_offset) for partition in node.replicas),
            sorted(group.group_id for group in run_to_end(node.groups.list_groups(ListGroupsRequest())).groups),
            len(node.services.fetch_sessions),
        )

    def kept(self) -> tuple[Any, ...]:
        """Return the state that a client without permissions cannot change: all but the quorum's idle records."""
        image = self.running.node.metadata.image
        return (
            image.features,
            image.topics,
            image.configs,
            image.client_quotas,
            image.producer_ids,
            image.acls,
            image.scram,
            self.state()[1:3],
        )


def check_response(client: Client, api_key: ApiKey, version: int) -> bool:
    """Require that the node sent at most one response, which a client can decode; return whether it sent one."""
    frame = client.take_frame()
    if frame is None:
        assert not client.peer.received, "the node has sent a part of a response"
        return False
    assert struct.unpack_from(">i", frame)[0] == CORRELATION_ID
    assert not client.peer.received, "the node has sent more than one response"
    position = 5 if response_header_version(api_key, version) == 1 else 4
    try:
        response_type(api_key).decode(memoryview(frame), version, position)
    except ProtocolError as error:
        raise AssertionError(
            f"{api_key.name} v{version} sends a response that cannot be decoded: {frame.hex()}"
        ) from error
    return True


def serve(
    target: Target, frame: bytes, api_key: ApiKey, version: int, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> str:
    """Send one frame over a connection of its own; return the outcome."""
    running = target.running
    before = target.state()
    client = running.connect(LISTENERS[role])
    client.send_bytes(struct.pack(">i", len(frame)) + frame)
    if client.is_closed:
        # A Produce with acks=0 may have appended to some partitions; closing reports the failure of the others.
        is_partly_served = "produced with acks=0" in caplog.text
        assert is_partly_served or target.state() == before, f"{api_key.name} v{version} was rejected and had an effect"
        return "closed"
    outcome = "served" if check_response(client, api_key, version) else "waiting"
    if outcome == "waiting":
        running.run(200)
        if client.is_closed:
            outcome = "closed"
        elif check_response(client, api_key, version):
            outcome = "served"
        else:
            is_silent = api_key is ApiKey.PRODUCE and client.peer.is_read_from
            assert is_silent or not client.peer.is_read_from, f"{api_key.name} v{version} is neither read nor served"
    if not client.is_closed:
        running.node.closed(client.peer.connection, "the test has finished with it")
    return outcome


def logged_defects(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines that report a defect of the node."""
    return [
        f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()
        for record in caplog.records
        if record.exc_info or record.levelno >= logging.ERROR
    ]


def check_lines(caplog: pytest.LogCaptureFixture, what: object = "") -> None:
    """Require that no line of the log is forged, too long, or a defect of the node."""
    for record in caplog.records:
        message = record.getMessage()
        assert message.isprintable(), (what, record.name, message[:500])
        assert len(message) <= LINE_CHARACTERS_MAX, (what, record.name, len(message), message[:200])
        assert record.exc_info is None, (what, message, record.exc_info)
        assert record.levelno < logging.ERROR, (what, message)


every_api_on_every_listener = pytest.mark.parametrize(
    ("api_key", "role"),
    [
        pytest.param(api_key, role, id=f"{api_key.name.lower()}-{role.value}")
        for api_key in sorted(CATALOG)
        for role in ListenerRole
        if is_served_to(role, api_key)
    ],
)
