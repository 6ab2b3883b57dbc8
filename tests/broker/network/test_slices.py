"""However many entries a request has, no stretch of the loop takes longer than a slice.

Each API is asked with as many entries as a request may have, in its lists and in the lists of one entry, of one name
and of many. What is measured is CPU, not time, and of several tries the best: a cache that another process has emptied
is no fault of the handler.
"""

import gc
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG, is_served_to
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import Uuid
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import Field
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.registry import ApiKey, request_type
from ottla.wire.records import Record, build_batch

ENTRIES = 90_000
"""ottla.request.entries.max is 100,000."""
SLICE_CPU_MS_MAX = 10
"""A slice ends after 0.1 ms and a step after 0.2; the rest is freed objects, and the caches of a shared machine."""
LONGER_CPU_MS_MAX = 25
LONGER = frozenset({ApiKey.FETCH, ApiKey.OFFSET_DELETE})
"""Their longest stretches took 8 to 15 ms; docs/limits.md says so."""
TRIES = 5
PARTITIONS = 200
TOPIC = "flights"
BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
BETWEEN_NODES = frozenset(
    {
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
    }
)
"""Nodes send these to the active controller, which decides each in one go; docs/limits.md says so."""


class RealNanoseconds(SimulatedClock):
    """Milliseconds pass when the test says so, nanoseconds by themselves: slices end as they do on a node."""

    def monotonic_ns(self) -> int:
        return time.perf_counter_ns()


class Filled:
    """A request with `ENTRIES` entries: in its own lists, or ``nested`` in those of their only entry.

    ``repeats``: every name and number is the same, one that exists; else all differ.
    """

    def __init__(self, topic_id: Uuid, *, repeats: bool, nested: bool) -> None:
        self._topic_id = topic_id
        self._repeats = repeats
        self._nested = nested
        self._count = 0

    def request(self, api_key: ApiKey, version: int) -> Message:
        message = self._struct(request_type(api_key), version, is_many=True)
        assert isinstance(message, Message)
        return message

    def _struct(self, struct_type: type[Struct], version: int, *, is_many: bool) -> Struct:
        struct = struct_type()
        fields = {
            key: field
            for key, field in struct_type.fields.items()
            if version in field.versions and version not in field.tagged
        }
        lists = sum(field.kind == "array" for field in fields.values())
        for key, field in fields.items():
            if field.kind == "array":
                setattr(struct, key, self._list(key, field, version, lists, is_many=is_many))
            elif field.kind == "struct":
                assert field.struct_type is not None
                setattr(struct, key, self._struct(field.struct_type, version, is_many=is_many))
            else:
                setattr(struct, key, self._value(key, field.kind))
        return struct

    def _list(self, key: str, field: Field, version: int, lists: int, *, is_many: bool) -> list[object]:
        inner = 0 if field.struct_type is None else _count_lists(field.struct_type, version)
        goes_deeper = self._nested and inner > 0
        size = ENTRIES // (1 + inner) // lists if is_many and not goes_deeper else 1
        return [self._entry(key, field, version, is_many=is_many and goes_deeper) for _ in range(size)]

    def _entry(self, key: str, field: Field, version: int, *, is_many: bool) -> object:
        if field.struct_type is not None:
            return self._struct(field.struct_type, version, is_many=is_many)
        return self._value(key, field.element)

    def _value(self, key: str, kind: str) -> object:
        self._count += 1
        special = {"records": BATCH, "bytes": b"x", "boolean": key.startswith("include"), "float64": 1.0}
        if kind in special:
            return special[kind]
        if kind == "uuid":
            return self._topic_id if self._repeats else Uuid(self._count.to_bytes(16, "big"))
        if kind == "string":
            is_one = key in ("group_id", "member_id", "protocol_type", "transactional_id", "client_software_name")
            return "g" if is_one else TOPIC if self._repeats else f"n{self._count}"
        return self._number(key)

    def _number(self, key: str) -> int:
        known = {"resource_type": 2, "timestamp": 5, "acks": 1, "max_bytes": 1_000_000, "partition_max_bytes": 1_000}
        if key in known:
            return known[key]
        if key.startswith("partition") or key == "index":
            return 0 if self._repeats else self._count % PARTITIONS
        if key.endswith("_ms"):
            return 1_000
        return -1 if key in ("replica_id", "current_leader_epoch", "leader_epoch", "generation_id") else 0


def _count_lists(struct_type: type[Struct], version: int) -> int:
    return sum(
        field.kind == "array" and version in field.versions and version not in field.tagged
        for field in struct_type.fields.values()
    )


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[RunningNode, Uuid]]:
    """Yield a node with topics; the collector is off, as its pauses are bounded by other means."""
    world = World()
    world.clock = RealNanoseconds()
    running = world.start_node()
    topics = [CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)]
    topics += [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(20)]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1_000)
    created = running.connect().ask(request, CreateTopicsResponse, 7)
    running.run(1_000)
    gc.collect()
    gc.disable()
    yield running, created.topics[0].topic_id
    gc.enable()


class Stopwatch:
    """The most CPU that one call of the node took, in milliseconds."""

    def __init__(self) -> None:
        self.worst_ms = 0.0

    def measure(self, call: Callable[..., object], *arguments: object) -> None:
        began_ns = time.thread_time_ns()
        call(*arguments)
        self.worst_ms = max(self.worst_ms, (time.thread_time_ns() - began_ns) / 1e6)


def serve(running: RunningNode, client: Client, frame: bytes) -> float:
    """Send ``frame`` and run the node until there is nothing left to do; return its longest stretch."""
    node, peer, stopwatch = running.node, client.peer, Stopwatch()
    while frame and peer.is_read_from and not peer.is_closed:
        buffer = node.receive_buffer(peer.connection)
        piece, frame = frame[: len(buffer)], frame[len(buffer) :]
        buffer[: len(piece)] = piece
        stopwatch.measure(node.received, peer.connection, len(piece))
    for _ in range(100_000):
        running.disk.complete_syncs()
        stopwatch.measure(node.tick)
        if not node.connections.steps:
            if peer.received or peer.is_closed:
                break
            running.clock.advance(10)
    return stopwatch.worst_ms


@pytest.mark.parametrize(
    ("repeats", "nested"), [(False, False), (True, True)], ids=["many-names", "one-name-in-the-lists-of-an-entry"]
)
@pytest.mark.parametrize("api_key", [each for each in CATALOG if each not in BETWEEN_NODES], ids=lambda it: it.name)
def test_no_stretch_of_the_loop_is_longer_than_a_slice(
    target: tuple[RunningNode, Uuid], api_key: ApiKey, repeats: bool, nested: bool
) -> None:
    running, topic_id = target
    version = CATALOG[api_key].last_version
    listener = "PLAINTEXT" if is_served_to(ListenerRole.BROKER, api_key) else "CONTROLLER"
    most_ms = LONGER_CPU_MS_MAX if api_key in LONGER else SLICE_CPU_MS_MAX
    tries = []
    while len(tries) < TRIES and (not tries or min(tries) > most_ms):
        client = running.connect(listener)
        request = Filled(topic_id, repeats=repeats, nested=nested).request(api_key, version)
        tries.append(serve(running, client, client.frame(request, version)))
        if not client.is_closed:
            running.node.closed(client.peer.connection, "the end of the test")

    assert min(tries) <= most_ms, f"the longest stretches of {api_key.name} v{version} took {tries} ms of CPU"
