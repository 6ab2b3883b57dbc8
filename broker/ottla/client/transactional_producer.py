"""`TransactionalProducer`: records and offsets that become visible together, or not at all.

`init_transactions` once; then `begin_transaction`, any number of `send` and `send_offsets_to_transaction`, and
`commit_transaction` or `abort_transaction`, again and again. After an error only an abort is possible; after a fatal
one, such as PRODUCER_FENCED, nothing is.

Source: KafkaProducer, TransactionManager (Kafka 4.3).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import BUFFER_SIZE_BYTES, LINGER_MS, PRODUCE_VERSION_MAX, Producer
from ottla.client.producer_queue import PartitionQueue, PendingBatch, RecordMetadata
from ottla.client.results import CommittedOffset
from ottla.client.transaction_requests import GroupMetadata, ProducerIdentity, TransactionRequests
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import Endpoint, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.records import Compression, Header

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

TRANSACTION_TIMEOUT_MS = 60_000

# From Produce v12 on, the broker enlists the partitions of a transactional batch itself (KIP-890).
PRODUCE_VERSION_MAX_1 = 11

_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Errors of coordinators after which the transaction can still be aborted."""

_FATAL_FOR_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors of partition leaders after which not even an abort would succeed."""


class TransactionState(Enum):
    """States of TransactionManager in Java's client."""

    UNINITIALIZED = "not initialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a failed transaction, which has to be aborted"
    FATAL_ERROR = "unusable after a fatal error"


class TransactionalProducer(Producer):
    """A producer of one transactional id. ``async with`` aborts a transaction that is open at its end."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        transactional_id: str,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        compression: Compression = Compression.NONE,
        linger_ms: int = LINGER_MS,
        buffer_size_bytes: int = BUFFER_SIZE_BYTES,
        create_topics: bool = False,
        client_id: str = "ottla-producer",
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Set up; nothing is sent before `init_transactions`.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            transactional_id: the same after a restart, and different for each producer that works at the same time.
            transaction_timeout_ms: the coordinator aborts a transaction that is open for longer.
            compression: see `Producer`; likewise the others.
            linger_ms: likewise.
            buffer_size_bytes: likewise.
            create_topics: likewise.
            client_id: likewise.
            security: likewise.
        """
        super().__init__(
            bootstrap_servers,
            compression=compression,
            linger_ms=linger_ms,
            buffer_size_bytes=buffer_size_bytes,
            create_topics=create_topics,
            client_id=client_id,
            security=security,
        )
        self.state = TransactionState.UNINITIALIZED
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._transactions = TransactionRequests(self.cluster, transactional_id)
        self._enlisted: set[TopicPartition] = set()
        self._has_offsets = False
        self._must_increase_epoch = False
        self._failure: OttlaError | None = None

    async def init_transactions(self) -> None:
        """Fence earlier producers with this transactional id, and abort or complete their last transaction.

        Raises:
            KafkaError: INVALID_TRANSACTION_TIMEOUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ...
            ClientError: no coordinator responds.
        """
        self._require(TransactionState.UNINITIALIZED)
        self._set_identity(await self._transactions.initialize(self._transaction_timeout_ms))
        is_version_2 = self._transactions.is_version_2
        self._produce_version_max = PRODUCE_VERSION_MAX if is_version_2 else PRODUCE_VERSION_MAX_1
        self.state = TransactionState.READY

    def begin_transaction(self) -> None:
        """Start a transaction; the coordinator gets to know it by the first record or offset.

        Raises:
            KafkaError: the error after which the producer has to abort or is unusable; INVALID_TXN_STATE if a
                transaction is open or `init_transactions` was not called.
        """
        self._require(TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION

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
        """Queue a record of the transaction; see `Producer.send`. Raises KafkaError outside of a transaction."""
        self._require(TransactionState.IN_TRANSACTION)
        return await super().send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> None:
        """Commit a consumer group's offsets as part of the transaction.

        Raises:
            KafkaError: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if the partitions may have another
                owner; abort then.
        """
        self._require(TransactionState.IN_TRANSACTION)
        if not offsets:
            return
        self._has_offsets = True
        try:
            await self._transactions.commit_offsets(self._current(), group, offsets)
        except KafkaError as error:
            self._fail(error, is_fatal=error.code not in _ABORTABLE and not error.code.is_retriable)
            raise

    async def commit_transaction(self) -> None:
        """Deliver the records that are queued, and commit. After a ClientError the commit can be repeated.

        Raises:
            KafkaError: the first error of the transaction, which has to be aborted; or a fatal one.
            ClientError: no coordinator responds; whether the transaction is committed is unknown.
        """
        self._require(TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)
        await self.flush()
        self._require(TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)
        self.state = TransactionState.COMMITTING
        await self._end(committed=True)

    async def abort_transaction(self) -> None:
        """Drop the records that are queued, and abort. After a ClientError the abort can be repeated.

        Raises:
            KafkaError: a fatal error, such as PRODUCER_FENCED.
            ClientError: no coordinator responds.
        """
        self._require(TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING)
        self.state = TransactionState.ABORTING
        aborted = ClientError("the transaction of this record was aborted")
        self._drop_batches(aborted)
        while self._requests:
            await asyncio.wait(self._requests)
            self._drop_batches(aborted)
        self._require(TransactionState.ABORTING)
        await self._end(committed=False)

    async def close(self, *, flush: bool = True) -> None:
        """Abort a transaction that is open, if the producer is still usable, and stop."""
        del flush  # records outside of a committed transaction are of no use
        if self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            try:
                await self.abort_transaction()
            except OttlaError as error:
                # The coordinator aborts it after the transaction's time-out.
                self._fail(error, is_fatal=True)
        await super().close(flush=False)

    # --- state ---------------------------------------------------------------------------------------------------

    def _require(self, *states: TransactionState) -> None:
        if self.state in states:
            return
        if self._failure is not None:
            raise self._failure
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {self._transactional_id} is {self.state.value}")

    def _fail(self, error: OttlaError, *, is_fatal: bool) -> None:
        """Note the first error of a transaction, or a fatal one; records that are queued fail too."""
        if is_fatal:
            self._failure, self.state = error, TransactionState.FATAL_ERROR
        elif self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            self._failure, self.state = error, TransactionState.ABORTABLE_ERROR
        else:
            return
        self._drop_batches(error)

    def _drop_batches(self, error: OttlaError) -> None:
        for queue in self._queues.values():
            for batch in list(queue.batches)[1 if queue.is_in_flight else 0 :]:
                self._finish(queue, batch, error)

    def _current(self) -> ProducerIdentity:
        assert self._identity is not None
        return ProducerIdentity(*self._identity)

    def _set_identity(self, identity: ProducerIdentity) -> None:
        if identity != self._identity:
            self._identity = identity
            for queue in self._queues.values():
                queue.producer = None

    async def _end(self, *, committed: bool) -> None:
        try:
            if self._enlisted or self._has_offsets:
                self._set_identity(await self._transactions.end(self._current(), committed=committed))
                self._enlisted, self._has_offsets = set(), False
            if self._must_increase_epoch and not self._transactions.is_version_2:
                # A broker may have a batch whose failure was reported: its sequence must not be used again.
                self._set_identity(await self._transactions.initialize(self._transaction_timeout_ms, self._current()))
        except KafkaError as error:
            self._fail_end(error)
        self._must_increase_epoch, self._failure = False, None
        self.state = TransactionState.READY

    def _fail_end(self, error: KafkaError) -> NoReturn:
        if not error.code.is_retriable:
            can_abort = error.code in _ABORTABLE and self.state is TransactionState.COMMITTING
            self._fail(error, is_fatal=not can_abort)
        raise error

    # --- what `Producer` calls -----------------------------------------------------------------------------------

    async def _get_identity(self) -> tuple[ProducerId, ProducerEpoch]:
        return self._current()

    async def _enlist(self, partitions: Sequence[TopicPartition]) -> None:
        new = set(partitions) - self._enlisted
        if new and not self._transactions.is_version_2:
            try:
                await self._transactions.add_partitions(self._current(), new)
            except KafkaError as error:
                if not error.code.is_retriable:
                    self._fail(error, is_fatal=error.code not in _ABORTABLE)
                raise
        self._enlisted |= new

    def _handle_failed_batch(self, queue: PartitionQueue, batch: PendingBatch, error: OttlaError) -> None:
        if batch.data is not None:
            self._must_increase_epoch = True
            queue.producer = None
        is_fatal = isinstance(error, KafkaError) and error.code in _FATAL_FOR_BATCHES
        self._fail(error, is_fatal=is_fatal)
