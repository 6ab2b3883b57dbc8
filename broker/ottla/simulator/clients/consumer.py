"""A simulated consumer: reads every partition of a topic from the start, and reports its records to the observer.

Records that are deleted before it has read them are skipped, as with auto.offset.reset=earliest.

Source: Fetcher of Apache Kafka's client; without sessions, one partition per request.
"""

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.invariants.ledger import PartitionKey
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import Offset
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.records import iterate_batches, read_records

MAX_WAIT_MS = 1_000
SIZE_BYTES_MAX = 64 * 1024
RETRY_BACKOFF_MS = 100
_EARLIEST = -2
DECOMPRESSED_BYTES_MAX = 1 << 24


class Consumer:
    """See the module."""

    isolation_level = 0
    size_bytes_max = SIZE_BYTES_MAX
    """Of a response."""

    def __init__(self, host: ClientHost, state_observer: StateObserver, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.read_count = 0
        self._host = host
        self._state_observer = state_observer
        self._positions: dict[int, Offset] = {}
        self._keys: dict[int, PartitionKey] = {}
        self._is_reading = True

    def start(self) -> None:
        """Start to read all partitions, and check for new ones periodically."""
        if not self._is_reading:
            return
        for partition in range(self._host.partition_count(self.topic)):
            if partition not in self._positions:
                self._positions[partition] = 0
                self._fetch(partition)
        if not self._positions:
            self._host.refresh()
        self._host.after(1_000, self.start)

    def abandon(self) -> None:
        """Read no more: the topic is deleted."""
        self._is_reading = False
        self._host.remove_topic(self.topic)

    @property
    def is_done(self) -> bool:
        """Whether it has read everything that is committed."""
        ledgers = ((self._state_observer.ledger.partition(key), partition) for partition, key in self._keys.items())
        return bool(self._keys) and all(self._positions[partition] >= ledger.end for ledger, partition in ledgers)

    def _fetch(self, partition: int) -> None:
        if not self._is_reading:
            return
        target = self._host.target(self.topic, partition)
        if target is None:
            self._host.after(RETRY_BACKOFF_MS, lambda: self._fetch(partition))
            return
        self._keys[partition] = target.key
        request = fetch_request(
            target.key, self._positions[partition], self.isolation_level, size_bytes_max=self.size_bytes_max
        )
        purpose = f"{self.name}-{partition}"
        self._host.ask(
            target.endpoint, request, purpose, lambda response: self._on_response(partition, target.key, response)
        )

    def _on_response(self, partition: int, key: PartitionKey, response: PeerResult) -> None:
        if isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE and response.responses:
            data = response.responses[0].partitions[0]
            if data.error_code == ErrorCode.NONE:
                self._take(partition, key, data)
                self._fetch(partition)
                return
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._ask_start(partition, key)
        ledger = self._state_observer.ledger.partition(key)
        if ledger.is_excused:
            self._positions[partition] = min(self._positions[partition], ledger.end)
        self._host.refresh()
        self._host.after(RETRY_BACKOFF_MS, lambda: self._fetch(partition))

    def _ask_start(self, partition: int, key: PartitionKey) -> None:
        """Request the log start offset: the records at the consumer's position may have been deleted."""
        target = self._host.target(self.topic, partition)
        if target is None:
            return
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=_EARLIEST)
        topic = ListOffsetsTopic(name=self.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        purpose = f"{self.name}-start"
        self._host.ask(target.endpoint, request, purpose, lambda response: self._on_start(partition, key, response))

    def _on_start(self, partition: int, key: PartitionKey, response: PeerResult) -> None:
        if isinstance(response, ListOffsetsResponse):
            found = response.topics[0].partitions[0]
            position = self._positions[partition]
            if found.error_code == ErrorCode.NONE and found.offset > position:
                self._state_observer.skipped(key, position, found.offset)
                self._positions[partition] = found.offset

    def _take(self, partition: int, key: PartitionKey, data: PartitionData) -> None:
        """Report the records of a response, and move the position behind them."""
        assert data.records is None or isinstance(data.records, memoryview), "a response is one buffer"
        position = self._positions[partition]
        values = [
            (record.offset, bytes(record.value or b""))
            for batch in iterate_batches(data.records or b"")
            for record in read_records(batch, size_bytes_max=DECOMPRESSED_BYTES_MAX)
            if record.offset >= position
        ]
        if values:
            self.read_count += len(values)
            self._positions[partition] = values[-1][0] + 1
            self._state_observer.read(key, values)


def fetch_request(
    key: PartitionKey, position: Offset, isolation_level: int, *, size_bytes_max: int = SIZE_BYTES_MAX
) -> FetchRequest:
    """Return a fetch of one partition, without a session."""
    wanted = FetchPartition(partition=key.partition, fetch_offset=position, partition_max_bytes=size_bytes_max)
    topic = FetchTopic(topic=key.topic, topic_id=key.topic_id, partitions=[wanted])
    return FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=size_bytes_max,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[topic],
    )
