"""`Producer`: batches records per partition and sends them, in order, without loss or duplicates.

One request per broker is in flight at a time; it carries a batch of each partition that the broker leads. So batches
of a partition never overtake each other, and the next batches fill while a request is in flight. With idempotence the
broker drops duplicates of a retry (KIP-98).

Source: KafkaProducer, RecordAccumulator, Sender, TransactionManager (Kafka 4.3).
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ottla.client.cluster import BACKOFF_FIRST_S, NOT_THERE_YET, Cluster
from ottla.client.cluster_user import ClusterUser
from ottla.client.errors import ClientError, RequestTimeoutError, kafka_error, raise_for
from ottla.client.partitioner import partition_for_key
from ottla.client.producer_queue import (
    RECORD_OVERHEAD_BYTES,
    PartitionQueue,
    PendingBatch,
    PendingRecord,
    RecordMetadata,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import Endpoint, NodeId, Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Compression,
    Header,
    RecordBatchBuilder,
    increment_sequence,
)

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

ACKS_ALL = -1
BATCH_SIZE_BYTES = 64 * 1024
REQUEST_SIZE_BYTES_MAX = 1024 * 1024
BUFFER_SIZE_BYTES = 32 * 1024 * 1024
LINGER_MS = 5
DELIVERY_TIMEOUT_S = 120.0

# From version 13 on, Produce names topics by id.
PRODUCE_VERSION_MAX = 12


class Producer(ClusterUser):
    """Sends records. Use with ``async with``, which flushes at the end; or call `close`."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        acks: int = ACKS_ALL,
        idempotence: bool = True,
        compression: Compression = Compression.NONE,
        linger_ms: int = LINGER_MS,
        batch_size_bytes: int = BATCH_SIZE_BYTES,
        buffer_size_bytes: int = BUFFER_SIZE_BYTES,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        create_topics: bool = False,
        client_id: str = "ottla-producer",
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Set up; nothing is sent before the first record.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            acks: -1 all in-sync replicas, 1 the leader, 0 none (offsets and errors stay unknown).
            idempotence: number records so that retries create no duplicates; needs acks -1, else it is off.
            compression: of the batches.
            linger_ms: how long a batch waits for more records.
            batch_size_bytes: a batch is full at this size, before compression.
            buffer_size_bytes: `send` waits while so many bytes are unsent.
            delivery_timeout_s: a record that is not delivered after this long fails.
            create_topics: let the broker create missing topics, if its configuration allows it.
            client_id: the client id in brokers' logs and quotas.
            security: TLS and SASL settings of its own connections; None: neither.
        """
        super().__init__(bootstrap_servers, client_id=client_id, security=security)
        self._acks = acks
        self._is_idempotent = idempotence and acks == ACKS_ALL
        self._compression = compression
        self._linger_s = linger_ms / 1000
        self._batch_size_bytes = batch_size_bytes
        self._buffer_size_bytes = buffer_size_bytes
        self._delivery_timeout_s = delivery_timeout_s
        self._create_topics = create_topics
        self._transactional_id: str | None = None
        self._produce_version_max = PRODUCE_VERSION_MAX
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sticky: dict[str, TopicPartition] = {}
        self._unsent_bytes = 0
        self._flushing = 0
        self._identity: tuple[ProducerId, ProducerEpoch] | None = None
        self._identity_lock = asyncio.Lock()
        self._work = asyncio.Event()
        self._progress = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()
        self._busy_nodes: set[NodeId] = set()
        self._sender: asyncio.Task[None] | None = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Queue a record; wait only while the buffer is full or the topic is not known yet.

        Returns:
            A future of the record's metadata. It fails with KafkaError or ClientError; asyncio does not report a
            failure that is never retrieved.

        Raises:
            KafkaError: the topic or the partition does not exist.
            ClientError: no broker responds.
        """
        where = await self._choose(topic, key, partition)
        size_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        size_bytes += sum(len(name) + len(content or b"") + 2 for name, content in headers)
        while self._unsent_bytes and self._unsent_bytes + size_bytes > self._buffer_size_bytes:
            self._progress.clear()
            await self._progress.wait()
        done: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        self._enqueue(where, PendingRecord(timestamp_ms, key, value, headers, size_bytes, done))
        return done

    async def flush(self) -> None:
        """Return when every queued record has been delivered or has failed."""
        self._flushing += 1
        self._work.set()
        try:
            while self._unsent_bytes:
                self._progress.clear()
                await self._progress.wait()
        finally:
            self._flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """Flush (unless ``flush`` is false) and stop; records that are left fail."""
        if flush:
            await self.flush()
        tasks = [*self._requests, *([self._sender] if self._sender else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for queue in self._queues.values():
            for batch in list(queue.batches):
                self._finish(queue, batch, ClientError("the producer was closed before the record was delivered"))
        await super().close()

    # --- queueing ------------------------------------------------------------------------------------------------

    async def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        if partition is None and key is None and topic in self._sticky:
            return self._sticky[topic]
        known = await self.cluster.retry(
            lambda: self.cluster.topic(topic, create=self._create_topics),
            # The broker may be creating the topic: retry until it exists.
            never=() if self._create_topics else NOT_THERE_YET,
        )
        count = len(known.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has partitions 0 to {count - 1}, not {partition}",
                )
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        # Records without a key fill one partition's batch before the next partition: fewer, larger batches (KIP-480).
        where = TopicPartition(topic, random.randrange(count))  # noqa: S311 - spreads load
        self._sticky[topic] = where
        return where

    def _enqueue(self, where: TopicPartition, record: PendingRecord) -> None:
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = PartitionQueue(where)
        batch = queue.batches[-1] if queue.batches else None
        is_closed = batch is None or batch.data is not None or (queue.is_in_flight and len(queue.batches) == 1)
        if is_closed or (batch is not None and batch.size_bytes + record.size_bytes > self._batch_size_bytes):
            batch = PendingBatch(where, asyncio.get_running_loop().time())
            queue.batches.append(batch)
            self._work.set()
        assert batch is not None
        batch.records.append(record)
        batch.size_bytes += record.size_bytes
        self._unsent_bytes += record.size_bytes
        if batch.size_bytes + record.size_bytes > self._batch_size_bytes:
            # One more such record would not fit: records without a key continue in another partition.
            self._sticky.pop(where.topic, None)
            self._work.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_batches())

    # --- sending -------------------------------------------------------------------------------------------------

    async def _send_batches(self) -> None:
        """Send the batches that are due, whenever the state of the queues or requests changes."""
        while True:
            self._work.clear()
            wait_s = await self._start_requests()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._work.wait()

    async def _start_requests(self) -> float | None:
        """Start a request to every idle broker with due batches; return the seconds until the next one is due."""
        now_s = asyncio.get_running_loop().time()
        due: dict[NodeId, list[PartitionQueue]] = {}
        next_due_s: float | None = None
        for queue in list(self._queues.values()):
            if not queue.batches or queue.is_in_flight:
                continue
            wait_s = self._wait_s(queue, now_s)
            if wait_s > 0:
                next_due_s = wait_s if next_due_s is None else min(next_due_s, wait_s)
                continue
            try:
                leader = await self.cluster.leader(queue.partition)
            except OttlaError as error:
                self._fail_if_hopeless(queue, error, now_s)
                next_due_s = BACKOFF_FIRST_S if next_due_s is None else min(next_due_s, BACKOFF_FIRST_S)
                continue
            if leader not in self._busy_nodes:
                due.setdefault(leader, []).append(queue)
        for leader, queues in due.items():
            self._start_request(leader, queues)
        return next_due_s

    def _wait_s(self, queue: PartitionQueue, now_s: float) -> float:
        batch = queue.batches[0]
        is_full = len(queue.batches) > 1 or batch.size_bytes + batch.records[-1].size_bytes > self._batch_size_bytes
        if is_full or self._flushing or batch.data is not None:
            return 0.0
        return batch.opened_at_s + self._linger_s - now_s

    def _start_request(self, leader: NodeId, queues: list[PartitionQueue]) -> None:
        chosen: list[PartitionQueue] = []
        size_bytes = 0
        for queue in queues:
            size_bytes += queue.batches[0].size_bytes
            if chosen and size_bytes > REQUEST_SIZE_BYTES_MAX:
                break
            queue.is_in_flight = True
            chosen.append(queue)
        self._busy_nodes.add(leader)
        task = asyncio.create_task(self._request(leader, chosen))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _request(self, leader: NodeId, queues: list[PartitionQueue]) -> None:
        """Send the first batch of each queue; a batch with a retriable error stays first."""
        try:
            sent = [queue for queue in queues if await self._settle(queue)]
            await self._enlist([queue.partition for queue in sent])
            responses = await self._produce(leader, sent) if sent else {}
            settled = [self._handle_response(queue, responses.get(queue.partition)) for queue in sent]
            if not all(settled):
                await asyncio.sleep(BACKOFF_FIRST_S)
        except OttlaError as error:
            now_s = asyncio.get_running_loop().time()
            for queue in queues:
                if queue.batches:
                    self.cluster.invalidate_topic(queue.partition.topic)
                    self._fail_if_hopeless(queue, error, now_s)
            await asyncio.sleep(BACKOFF_FIRST_S)
        finally:
            self._busy_nodes.discard(leader)
            for queue in queues:
                queue.is_in_flight = False
            self._work.set()

    async def _enlist(self, partitions: Sequence[TopicPartition]) -> None:
        """Do what has to be done before batches of ``partitions`` are sent: nothing outside of a transaction."""

    async def _produce(
        self, leader: NodeId, queues: list[PartitionQueue]
    ) -> dict[TopicPartition, PartitionProduceResponse | None]:
        topics: dict[str, TopicProduceData] = {}
        for queue in queues:
            topic = topics.setdefault(queue.partition.topic, TopicProduceData(name=queue.partition.topic))
            topic.partition_data.append(
                PartitionProduceData(index=queue.partition.partition, records=queue.batches[0].data)
            )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=int(self.cluster.request_timeout_s * 1000),
            topic_data=list(topics.values()),
        )
        connection = await self.cluster.node_connection(leader)
        if self._acks == 0:
            await connection.send_only(request, highest=self._produce_version_max)
            return {queue.partition: None for queue in queues}
        response = await connection.send(request, ProduceResponse, highest=self._produce_version_max)
        return {
            TopicPartition(topic.name, entry.index): entry
            for topic in response.responses
            for entry in topic.partition_responses
        }

    async def _settle(self, queue: PartitionQueue) -> bool:
        """Assign sequences to the first batch and encode it; a retried batch keeps them.

        Return False if the batch failed because a record in it cannot be encoded.
        """
        batch = queue.batches[0]
        if batch.data is not None:
            return True
        if self._sticky.get(queue.partition.topic) == queue.partition:
            del self._sticky[queue.partition.topic]
        if self._is_idempotent and queue.producer is None:
            queue.producer, queue.next_sequence = await self._get_identity(), 0
        producer_id, producer_epoch = queue.producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        builder = RecordBatchBuilder(
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=queue.next_sequence if queue.producer else NO_SEQUENCE,
            is_transactional=self._transactional_id is not None,
        )
        try:
            for record in batch.records:
                builder.append(
                    timestamp_ms=record.timestamp_ms, key=record.key, value=record.value, headers=record.headers
                )
            batch.data = builder.build()
        except Exception as error:  # a timestamp or a name that the format cannot hold: a retry would not help
            self._finish(queue, batch, ClientError(f"a record for {queue.partition} cannot be encoded: {error}"))
            return False
        queue.next_sequence = increment_sequence(queue.next_sequence, len(batch.records))
        return True

    async def _get_identity(self) -> tuple[ProducerId, ProducerEpoch]:
        async with self._identity_lock:
            if self._identity is None:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)

                async def attempt() -> tuple[ProducerId, ProducerEpoch]:
                    response = await self.cluster.send_to_any(request, InitProducerIdResponse)
                    raise_for(response.error_code)
                    return response.producer_id, response.producer_epoch

                self._identity = await self.cluster.retry(attempt, also=(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,))
            return self._identity

    # --- responses -----------------------------------------------------------------------------------------------

    def _handle_response(self, queue: PartitionQueue, response: PartitionProduceResponse | None) -> bool:
        """Return whether the queue's first batch has been delivered or has failed."""
        batch = queue.batches[0]
        if self._acks == 0:
            self._finish(queue, batch, None)
            return True
        if response is None:
            raise RequestTimeoutError(f"the broker's response leaves out {queue.partition}")
        if response.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(queue, batch, None, response.base_offset, response.log_append_time_ms)
            return True
        error = kafka_error(response.error_code, _explain(queue.partition, response))
        self.cluster.invalidate_topic(queue.partition.topic)
        return self._fail_if_hopeless(queue, error, asyncio.get_running_loop().time())

    def _fail_if_hopeless(self, queue: PartitionQueue, error: OttlaError, now_s: float) -> bool:
        """Fail the first batch, unless a retry may help and there is time; return whether it failed."""
        batch = queue.batches[0]
        may_help = not isinstance(error, KafkaError) or error.code.is_retriable
        is_late = now_s > batch.opened_at_s + self._delivery_timeout_s
        if may_help and not is_late:
            return False
        self._finish(queue, batch, error)
        return True

    def _finish(
        self,
        queue: PartitionQueue,
        batch: PendingBatch,
        error: OttlaError | None,
        base_offset: Offset = -1,
        log_append_time_ms: int = -1,
    ) -> None:
        queue.batches.remove(batch)
        self._unsent_bytes -= batch.size_bytes
        self._progress.set()
        if error is not None:
            self._handle_failed_batch(queue, batch, error)
        for index, record in enumerate(batch.records):
            if record.done.done():
                continue
            if error is not None:
                record.done.set_exception(error)
                record.done.exception()
                continue
            offset = base_offset + index if base_offset >= 0 else -1
            timestamp_ms = log_append_time_ms if log_append_time_ms >= 0 else record.timestamp_ms
            record.done.set_result(RecordMetadata(batch.partition, offset, timestamp_ms))

    def _handle_failed_batch(self, queue: PartitionQueue, batch: PendingBatch, _: OttlaError) -> None:
        if batch.data is not None and self._is_idempotent:
            # The broker never received these sequences: the next batches need a new producer id or epoch.
            queue.producer = self._identity = None
            for waiting in queue.batches:
                waiting.data = None


def _explain(partition: TopicPartition, response: PartitionProduceResponse) -> str:
    record_errors = (error.batch_index_error_message or "" for error in response.record_errors)
    message = "; ".join(reason for reason in (response.error_message or "", *record_errors) if reason)
    return f"{partition}: {message}" if message else f"partition {partition}"
