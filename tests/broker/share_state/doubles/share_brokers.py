"""Brokers that run recorded scenarios of share state: a node in memory, and a running Kafka."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ottla.errors import ErrorCode
from ottla.simulator.world.single_node import World
from ottla.types import SHARE_GROUP_STATE_TOPIC, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.registry import ApiKey, response_type
from ottla.wire.records import iterate_batches, read_records
from scenario_broker import SocketDriver
from share_commands import Topics, to_lines, to_request

STATE_TOPIC_PARTITIONS = 3
UPDATES_PER_SNAPSHOT = 3
EARLIEST = -2
_ATTEMPTS = 100
_CREATION_TIMESTAMPS = slice(22, 38)
"""In the value of a snapshot: when it was created and written."""
_TOPIC = "t"


class ShareBroker(ABC):
    """A cluster of one broker with the topic ``t``, which has two partitions."""

    @abstractmethod
    def send(self, request: Message, version: int) -> Any:
        """Return the response."""

    @abstractmethod
    def pause(self) -> None:
        """Let some time pass."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def prepare(self) -> None:
        """Create the topics again."""
        self.send(DeleteTopicsRequest(topics=[DeleteTopicState(name=_TOPIC)], timeout_ms=10_000), 6)
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name=_TOPIC, num_partitions=2, replication_factor=1)], timeout_ms=10_000
        )
        created = self._repeat(create, 7, lambda response: response.topics[0].error_code == ErrorCode.NONE)
        self.topics = Topics({_TOPIC: created.topics[0].topic_id})
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"])
        self._repeat(find, 6, lambda response: response.coordinators[0].error_code == ErrorCode.NONE)
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait for the coordinators of all partitions of the internal topic, and until they know the topic."""
        for group in range(10):
            request, version = to_request(f"delete v0 warm-up-{group} t 0; t 1", self.topics)
            self._repeat(request, version, lambda response: to_lines(response, self.topics) == ["t 0 NONE", "t 1 NONE"])

    def run(self, line: str) -> list[str]:
        """Run a command; return the lines of its response."""
        if line.startswith("records "):
            return list(self._records(line.split(" ")[1]))
        request, version = to_request(line, self.topics)
        return to_lines(self.send(request, version), self.topics)

    def _repeat(self, request: Message, version: int, is_done: Callable[[Any], bool]) -> Any:
        for _ in range(_ATTEMPTS):
            response = self.send(request, version)
            if is_done(response):
                return response
            self.pause()
        raise AssertionError(f"{request}: {response}")

    def _records(self, group: str) -> Iterator[str]:
        """Yield key and value of each record of a group and the current topics, in hexadecimal digits.

        Topic ids and timestamps are masked. The share-partitions come one after the other: which partition of the
        internal topic has one depends on the topic's id.
        """
        topic_id = self.topics.ids[_TOPIC]
        encoded_group = len(group).to_bytes(2, "big") + group.encode()
        found: list[tuple[bytes, str]] = []
        for partition in range(STATE_TOPIC_PARTITIONS):
            for record in self.read_state_topic(partition):
                key = bytes(record.key or b"")
                if key[2:].startswith(encoded_group + topic_id):
                    found.append((key[-4:], _shown(key, record.value, topic_id)))
        yield from (line for _, line in sorted(found, key=lambda each: each[0]))

    def read_state_topic(self, partition: int) -> list[Any]:
        """Return the records of a partition of the internal topic; those at its start may have been pruned."""
        earliest = ListOffsetsTopic(
            name=SHARE_GROUP_STATE_TOPIC,
            partitions=[ListOffsetsPartition(partition_index=partition, timestamp=EARLIEST)],
        )
        listed = self.send(ListOffsetsRequest(replica_id=-1, topics=[earliest]), 7).topics[0].partitions[0]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=SHARE_GROUP_STATE_TOPIC,
                    partitions=[
                        FetchPartition(partition=partition, fetch_offset=listed.offset, partition_max_bytes=1 << 24)
                    ],
                )
            ],
        )
        result = self.send(request, 12).responses[0].partitions[0]
        assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
        batches = iterate_batches(bytearray(result.records or b""))
        return [record for batch in batches for record in read_records(batch, size_bytes_max=1 << 24)]


def _shown(key: bytes, value: bytes | None, topic_id: Uuid) -> str:
    is_snapshot = key[:2] == b"\0\0"
    shown_key = key.hex().replace(topic_id.hex(), "<topic>")
    if value is None:
        return f"{shown_key} tombstone"
    shown = bytes(value)
    if not is_snapshot:
        return f"{shown_key} {shown.hex()}"
    before, after = shown[: _CREATION_TIMESTAMPS.start], shown[_CREATION_TIMESTAMPS.stop :]
    return f"{shown_key} {before.hex()}<times>{after.hex()}"


class NodeInMemory(ShareBroker):
    """A node of Ottla whose time passes only here."""

    def __init__(self, world: World | None = None, **overrides: str) -> None:
        self.world = world or World()
        settings = {"share_coordinator_snapshot_update_records_per_snapshot": str(UPDATES_PER_SNAPSHOT), **overrides}
        self.running = self.world.start_node(**settings)
        self._client = self.running.connect()

    def send(self, request: Message, version: int) -> Any:
        return self._client.ask(request, response_type(ApiKey(request.api_key)), version)

    def pause(self) -> None:
        self.running.run(100)

    def close(self) -> None:
        """Do nothing."""


class RunningKafka(ShareBroker):
    """A Kafka that listens at ``bootstrap``."""

    def __init__(self, bootstrap: str) -> None:
        self._driver = SocketDriver(bootstrap)

    def send(self, request: Message, version: int) -> Any:
        return self._driver.send(request, version)

    def pause(self) -> None:
        self._driver.pause(0.1)

    def close(self) -> None:
        self._driver.close()
