"""`Consumer`: reads assigned partitions from given offsets. `group_reader` and its subclasses add consumer groups.

Source: KafkaConsumer, AbstractFetch, CompletedFetch (Kafka 4.3).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from ottla.client.admin_topics import EARLIEST, LATEST, TopicAdmin
from ottla.client.cluster import BACKOFF_FIRST_S, Cluster
from ottla.client.cluster_user import ClusterUser
from ottla.client.errors import BrokerUnreachableError, ConnectionLostError, RequestTimeoutError, kafka_error
from ottla.client.failing_leaders import FailingLeaders
from ottla.errors import ErrorCode
from ottla.types import Endpoint, NodeId, Offset, TopicPartition
from ottla.wire.codec.message import Records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.records import AbortedTransactions, Header, RecordBatch, iterate_batches, read_records

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

FETCH_SIZE_BYTES_MAX = 50 * 1024 * 1024
PARTITION_SIZE_BYTES_MAX = 1024 * 1024
DECOMPRESSED_SIZE_BYTES_MAX = 256 * 1024 * 1024

# From version 13 on, Fetch names topics by id.
FETCH_VERSION_MAX = 12

OffsetReset = Literal["earliest", "latest", "none"]
_SEARCH_AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class ConsumedRecord(NamedTuple):
    """One record with its partition and offset."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def consumed_records(partition: TopicPartition, batch: RecordBatch) -> Iterator[ConsumedRecord]:
    """Yield the records of a fetched batch."""
    for record in read_records(batch, size_bytes_max=DECOMPRESSED_SIZE_BYTES_MAX):
        yield ConsumedRecord(*partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers)


class Consumer(ClusterUser):
    """Reads partitions. Use with ``async with``, or call `close`."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        offset_reset: OffsetReset = "none",
        read_committed: bool = False,
        size_bytes_max: int = FETCH_SIZE_BYTES_MAX,
        partition_size_bytes_max: int = PARTITION_SIZE_BYTES_MAX,
        client_id: str = "ottla-consumer",
        security: "ClientSecurity | None" = None,
        rack: str = "",
    ) -> None:
        """Set up; nothing is sent before the first `fetch`.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            offset_reset: the position after an offset that no longer exists; "none" makes `fetch` raise.
            read_committed: skip records of open and aborted transactions.
            size_bytes_max: soft limit of one response of one broker.
            partition_size_bytes_max: soft limit of one partition in it.
            client_id: the client id in brokers' logs and quotas.
            security: TLS and SASL settings of its own connections; None: neither.
            rack: the rack of this client.
        """
        super().__init__(bootstrap_servers, client_id=client_id, security=security)
        self.positions: dict[TopicPartition, Offset] = {}
        """The offset of the next record per assigned partition."""
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As of the last response with the partition."""
        self._offset_reset = offset_reset
        self._read_committed = read_committed
        self._size_bytes_max = size_bytes_max
        self._partition_size_bytes_max = partition_size_bytes_max
        self._rack = rack
        self._failing = FailingLeaders(self.cluster)

    def assign(self, positions: Mapping[TopicPartition, Offset]) -> None:
        """Read these partitions, and no others, from these offsets."""
        self.positions = dict(positions)
        self.high_watermarks = {
            partition: offset for partition, offset in self.high_watermarks.items() if partition in positions
        }

    async def fetch(self, *, max_wait_ms: int = 500, min_bytes: int = 1) -> list[ConsumedRecord]:
        """Return the next records, in order within each partition, and advance the positions.

        Args:
            max_wait_ms: how long brokers wait for ``min_bytes``; an empty list after that.
            min_bytes: see ``max_wait_ms``.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE with ``offset_reset`` "none"; any error that is not retriable.
            ClientError: brokers cannot be reached.
            CorruptRecordError: a batch that does not match its checksum.
        """
        by_leader = await self.cluster.retry(self._by_leader)
        if not by_leader:
            await asyncio.sleep(max_wait_ms / 1000)
            return []
        responses = await asyncio.gather(
            *(self._fetch_from(leader, partitions, max_wait_ms, min_bytes) for leader, partitions in by_leader.items())
        )
        records: list[ConsumedRecord] = []
        for response in responses:
            if response is not None:
                await self._take(response, records)
        return records

    async def _by_leader(self) -> dict[NodeId, list[TopicPartition]]:
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        for partition in self.positions:
            by_leader.setdefault(await self.cluster.leader(partition), []).append(partition)
        return by_leader

    async def _fetch_from(
        self, leader: NodeId, partitions: list[TopicPartition], max_wait_ms: int, min_bytes: int
    ) -> FetchResponse | None:
        topics: dict[str, FetchTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, FetchTopic(topic=partition.topic))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=self._partition_size_bytes_max,
                )
            )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=self._size_bytes_max,
            isolation_level=int(self._read_committed),
            topics=list(topics.values()),
            rack_id=self._rack,
        )
        try:
            response = await self.cluster.send_to_node(
                leader,
                request,
                FetchResponse,
                highest=FETCH_VERSION_MAX,
                timeout_s=self.cluster.request_timeout_s + max_wait_ms / 1000,
            )
        except (BrokerUnreachableError, ConnectionLostError, RequestTimeoutError):
            if not self._failing.may_recover(leader):
                raise
            for partition in partitions:
                self.cluster.invalidate_topic(partition.topic)
            await asyncio.sleep(BACKOFF_FIRST_S)
            return None
        self._failing.on_response(leader)
        return response

    async def _take(self, response: FetchResponse, records: list[ConsumedRecord]) -> None:
        if response.error_code:
            raise kafka_error(response.error_code)
        # Brokers rotate partitions for fairness; the reader should see them in one order.
        for topic in response.responses:
            for entry in sorted(topic.partitions, key=lambda entry: entry.partition_index):
                partition = TopicPartition(topic.topic, entry.partition_index)
                if partition not in self.positions:
                    continue
                if entry.error_code:
                    await self._handle_error(partition, entry.error_code)
                    continue
                self.high_watermarks[partition] = entry.high_watermark
                if entry.records is not None:
                    self._read(partition, entry, entry.records, records)

    async def _handle_error(self, partition: TopicPartition, code: int) -> None:
        if code in _SEARCH_AGAIN:
            self.cluster.invalidate_topic(partition.topic)
            await asyncio.sleep(BACKOFF_FIRST_S)
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and self._offset_reset != "none":
            timestamp = EARLIEST if self._offset_reset == "earliest" else LATEST
            offsets = await TopicAdmin(self.cluster).list_offsets({partition: timestamp})
            self.positions[partition] = offsets[partition].offset
            return
        offset = self.positions[partition]
        raise kafka_error(code, f"partition {partition} at offset {offset}")

    def _read(
        self, partition: TopicPartition, entry: PartitionData, data: Records, records: list[ConsumedRecord]
    ) -> None:
        position = self.positions[partition]
        aborted = AbortedTransactions(entry.aborted_transactions or ()) if self._read_committed else None
        assert isinstance(data, memoryview | bytes | bytearray)
        for batch in iterate_batches(data):
            if batch.last_offset < position:
                continue
            batch.check_crc()
            position = batch.next_offset
            is_aborted = aborted is not None and aborted.includes(batch)
            if batch.is_control or is_aborted:
                continue
            records.extend(
                record for record in consumed_records(partition, batch) if record.offset >= self.positions[partition]
            )
        self.positions[partition] = position
