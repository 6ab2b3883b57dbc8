"""Frames of every API and version, sound and broken, against a whole node in memory: a fixed budget on fixed seeds.

Whatever comes, the peer is answered with something that it can read, kept waiting, or cut off with one line that says
why; nothing escapes, nothing is logged as our own mistake, and what was refused has changed nothing. So it is for a
client that may do everything, for one that may do nothing, and for one that has not logged in.

OTTLA_FUZZ_FRAMES says how many frames of each version there are, 8 when it is not set.
"""

import logging
import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.errors import ProtocolError
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, is_served_to
from ottla.purgatory.steps import run_to_end
from ottla.simulator.single_node import Client, RunningNode, World
from ottla.types import Uuid
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import FIXED_KINDS, Field
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.registry import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from ottla.wire.records import Record, build_batch

TOPIC = "flights"
STRINGS = (TOPIC, TOPIC, "g", "", "__consumer_offsets", "1", "consumer", "\u00e9\u2713", "x" * 300)
LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x08")
LISTENERS = {ListenerRole.BROKER: "PLAINTEXT", ListenerRole.CONTROLLER: "CONTROLLER"}
LOCKED = "LOCKED"
PERMITTED_TO_NOBODY = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:admin",
}
WITH_A_LOGIN = {
    "listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094,CONTROLLER://localhost:9093",
    "advertised_listeners": f"PLAINTEXT://localhost:9092,{LOCKED}://localhost:9094",
    "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LOCKED}:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-512",
}
BEFORE_A_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
FRAMES_PER_VERSION = int(os.environ.get("OTTLA_FUZZ_FRAMES", "8"))
CORRELATION_ID = 77


class Chance:
    """Values for fields: often ones that this node knows, else any that the field can hold."""

    def __init__(self, seed: int, topic_id: Uuid) -> None:
        self.random = random.Random(seed)
        self.topic_id = topic_id

    def message(self, message_type: type[Message], version: int) -> Message:
        message = self._struct(message_type, version)
        assert isinstance(message, Message)
        return message

    def _struct(self, struct_type: type[Struct], version: int) -> Struct:
        struct = struct_type()
        for key, field in struct_type.fields.items():
            if version in field.tagged and self.random.random() < 0.5:
                continue
            if version in field.versions or version in field.tagged:
                setattr(struct, key, self._value(key, field, version))
        return struct

    def _value(self, key: str, field: Field, version: int) -> Any:
        if version in field.nullable and self.random.random() < 0.2:
            return None
        if field.kind == "struct":
            assert field.struct_type is not None
            return self._struct(field.struct_type, version)
        if field.kind == "array":
            return [self._element(key, field, version) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        return self._scalar(key, field.kind)

    def _element(self, key: str, field: Field, version: int) -> Any:
        if field.struct_type is not None:
            return self._struct(field.struct_type, version)
        return self._scalar(key, field.element)

    def _scalar(self, key: str, kind: str) -> Any:
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "float64":
            return self.random.choice((0.0, 1.0, -1.5, float("nan"), float("inf"), 1e300))
        if kind == "uuid":
            return self.random.choice((self.topic_id, Uuid(bytes(16)), Uuid(self.random.randbytes(16))))
        if kind == "string":
            return self.random.choice(STRINGS)
        if kind in ("bytes", "records"):
            return self.random.choice((b"", self.random.randbytes(40), self._batch()))
        return self._integer(key, kind)

    def _integer(self, key: str, kind: str) -> int:
        size_bits = FIXED_KINDS[kind][1] * 8
        low, high = (0, 2**size_bits - 1) if kind == "uint16" else (-(2 ** (size_bits - 1)), 2 ** (size_bits - 1) - 1)
        if key.endswith(("_ms", "_count", "num_partitions")) and self.random.random() < 0.9:
            return self.random.choice((0, 1, 10, 100))
        return self.random.choice((0, 0, 1, 1, 2, 3, max(low, -1), low, high, self.random.randint(low, high)))

    def _batch(self) -> bytes:
        batch = bytearray(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
        if self.random.random() < 0.5:
            batch[self.random.randrange(len(batch))] = self.random.randrange(256)
        return bytes(batch)

    def mutated(self, body: bytes) -> bytes:
        """Return ``body`` as it is or broken in one of the ways in which bytes break."""
        data = bytearray(body)
        at = self.random.randrange(len(data) + 1)
        match self.random.randrange(6):
            case 0:
                return body
            case 1:
                return body[:at]
            case 2:
                data[at:at] = self.random.randbytes(self.random.randrange(1, 6))
            case 3:
                data[at : at + 4] = self.random.choice(LENGTHS)
            case 4:
                for _ in range(self.random.randrange(1, 4) if data else 0):
                    data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            case _:
                del data[at : at + self.random.randrange(1, 6)]
        return bytes(data)


@dataclass
class Target:
    """A node with a topic, renewed when a request has rightly shut it down or taken it apart."""

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
        """What a refused request must not change."""
        node = self.running.node
        return (
            node.raft.log_end_offset,
            sorted((partition.topic_partition, partition.log.log_end_offset) for partition in node.replicas),
            sorted(group.group_id for group in run_to_end(node.groups.list_groups(ListGroupsRequest())).groups),
            len(node.services.fetch_sessions),
        )

    def kept(self) -> tuple[Any, ...]:
        """What stays as it is whatever somebody sends who may do nothing: all but the quorum's idle records."""
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


def header_of(api_key: ApiKey, version: int) -> bytes:
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=CORRELATION_ID, client_id="fuzz"
    )
    return header.encode(request_header_version(api_key, version))


def check_answer(client: Client, api_key: ApiKey, version: int) -> bool:
    """Require that what came back is one response that a client can read; return whether anything came."""
    frame = client.take_frame()
    if frame is None:
        assert not client.peer.received, "the node has sent half an answer"
        return False
    assert struct.unpack_from(">i", frame)[0] == CORRELATION_ID
    assert not client.peer.received, "the node has answered more than it was asked"
    position = 5 if response_header_version(api_key, version) == 1 else 4
    try:
        response_type(api_key).decode(memoryview(frame), version, position)
    except ProtocolError as error:
        raise AssertionError(f"{api_key.name} v{version} answers what cannot be read: {frame.hex()}") from error
    return True


def serve(
    target: Target, frame: bytes, api_key: ApiKey, version: int, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> str:
    """Send one frame over a connection of its own; return what became of it."""
    running = target.running
    before = target.state()
    client = running.connect(LISTENERS[role])
    client.send_bytes(struct.pack(">i", len(frame)) + frame)
    if client.is_closed:
        # Of a Produce with acks=0 some partitions may have been served; closing is how it hears of the others.
        is_partly_served = "produced with acks=0" in caplog.text
        assert is_partly_served or target.state() == before, f"{api_key.name} v{version} was refused and did something"
        return "closed"
    outcome = "answered" if check_answer(client, api_key, version) else "waiting"
    if outcome == "waiting":
        running.run(200)
        if client.is_closed:
            outcome = "closed"
        elif check_answer(client, api_key, version):
            outcome = "answered"
        else:
            is_silent = api_key is ApiKey.PRODUCE and client.peer.is_read_from
            assert is_silent or not client.peer.is_read_from, f"{api_key.name} v{version} is neither read nor answered"
    if not client.is_closed:
        running.node.closed(client.peer.connection, "the test is through with it")
    return outcome


def mistakes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the node has logged as its own mistake."""
    return [
        f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()
        for record in caplog.records
        if record.exc_info or record.levelno >= logging.ERROR
    ]


def frames_of(api_key: ApiKey, chance: Chance, versions: range) -> Iterator[tuple[int, bytes]]:
    for version in versions:
        for number in range(FRAMES_PER_VERSION):
            body = chance.message(request_type(api_key), version).encode(version)
            sound = header_of(api_key, version) + body
            yield version, sound if number == 0 else header_of(api_key, version) + chance.mutated(body)


every_api_at_every_door = pytest.mark.parametrize(
    ("api_key", "role"),
    [
        pytest.param(api_key, role, id=f"{api_key.name.lower()}-{role.value}")
        for api_key in sorted(CATALOG)
        for role in ListenerRole
        if is_served_to(role, api_key)
    ],
)


@every_api_at_every_door
def test_every_frame_is_answered_kept_waiting_or_cut_off_with_a_reason(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = int(api_key) * 2 + (role is ListenerRole.CONTROLLER)
    target = Target.new(seed)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    caplog.set_level(logging.WARNING)
    caplog.set_level(logging.DEBUG, logger="ottla.server.gateway")
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        outcome = serve(target, frame, api_key, version, role, caplog)

        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        if outcome == "closed":
            assert any("10.0.0.7:5000" in record.getMessage() for record in caplog.records), (version, frame.hex())
        if not target.is_intact:
            target = Target.new(seed)
            chance.topic_id = target.topic_id
    check_nothing_is_left(target)


@every_api_at_every_door
def test_who_may_do_nothing_changes_nothing(
    api_key: ApiKey, role: ListenerRole, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 1000 + int(api_key)
    target = Target.new(seed, **PERMITTED_TO_NOBODY)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()

        serve(target, frame, api_key, version, role, caplog)

        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        assert target.kept() == before, (api_key.name, version, frame.hex())
        assert target.is_intact, (api_key.name, version, frame.hex())


@pytest.mark.parametrize("api_key", sorted(CATALOG), ids=lambda key: key.name.lower())
def test_who_has_not_logged_in_is_cut_off_and_changes_nothing(
    api_key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    seed = 2000 + int(api_key)
    target = Target.new(seed, **WITH_A_LOGIN)
    chance = Chance(seed, target.topic_id)
    row = CATALOG[api_key]
    before = target.kept()
    caplog.set_level(logging.WARNING)
    for version, frame in frames_of(api_key, chance, range(row.first_version, row.last_version + 1)):
        caplog.clear()
        client = target.running.connect(LOCKED)

        client.send_bytes(struct.pack(">i", len(frame)) + frame)

        if api_key not in BEFORE_A_LOGIN:
            assert not client.peer.received, (version, frame.hex())
            # Guessing is slow: connection.failed.authentication.delay.ms.
            target.running.run(200)
            assert client.is_closed, (version, frame.hex())
        assert not mistakes(caplog), (api_key.name, version, frame.hex(), mistakes(caplog))
        assert target.kept() == before, (version, frame.hex())
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test is through with it")


def check_nothing_is_left(target: Target) -> None:
    """Require that no connection and, once all deadlines have passed, no request is remembered."""
    node = target.running.node
    assert len(node.gateway) == 0 or node.gateway.open_by_listener["PLAINTEXT"] == 1  # the one that made the topic
    target.running.clock.advance(2**32)
    node.replicas.tick(target.running.clock.monotonic_ms())
    assert len(node.replicas.fetch_purgatory) == len(node.replicas.produce_purgatory) == 0


def test_noise_over_one_connection_after_another_is_cut_off_and_nobody_else_suffers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target.new(1)
    chance = random.Random(1)
    other = target.running.connect()
    caplog.set_level(logging.WARNING)
    before = target.state()
    tracemalloc.start()
    for _ in range(1_500):
        client = target.running.connect(chance.choice(list(LISTENERS.values())))
        noise = chance.randbytes(chance.randrange(1, 400))
        if chance.random() < 0.7:
            key, version = chance.choice(list(ApiKey)), chance.randrange(-1, 20)
            noise = struct.pack(">hhi", key, version, CORRELATION_ID) + noise
            noise = struct.pack(">i", len(noise)) + noise
        client.send_bytes(noise)
        if not client.is_closed:
            target.running.node.closed(client.peer.connection, "the test is through with it")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert not mistakes(caplog)
    assert target.state()[1:3] == before[1:3]
    assert peak_bytes < 32 * 1024 * 1024
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None
