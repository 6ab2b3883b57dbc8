"""`TransactionRequests`: the requests of one transactional id to its coordinator, with their retries.

Source: TransactionManager (Kafka 4.3); KIP-98, KIP-360, KIP-447, KIP-890.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.client.results import CommittedOffset
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_2 = 2

# The highest versions of clients that work as under version 1 of transactions. AddPartitionsToTxn v4 and later is for
# brokers.
ADD_PARTITIONS_VERSION_MAX = 3
END_VERSION_MAX_1 = 4
OFFSET_COMMIT_VERSION_MAX_1 = 4
INIT_VERSION_WITH_IDENTITY = 3

ResultT = TypeVar("ResultT")


class ProducerIdentity(NamedTuple):
    """A producer id and epoch; each later one of the same transactional id fences the earlier ones."""

    producer_id: ProducerId
    epoch: ProducerEpoch


class GroupMetadata(NamedTuple):
    """A member of a consumer group, so that its coordinator can reject offsets of a former owner (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionRequests:
    """Requests of one transactional id. Each is repeated within the cluster's ``request_timeout_s``.

    Methods raise `KafkaError` with a code that a retry does not help, PRODUCER_FENCED also for older brokers'
    INVALID_PRODUCER_EPOCH; and ClientError, or a retriable code, after the time-out.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.is_version_2 = False
        """Whether version 2 of transactions is finalized (KIP-890): each end gives the producer another epoch."""

    async def initialize(self, timeout_ms: int, identity: ProducerIdentity | None = None) -> ProducerIdentity:
        """Return the next identity; ``identity`` is the current one, which the coordinator checks (KIP-360)."""

        async def attempt() -> ProducerIdentity:
            connection = await self.cluster.transaction_coordinator(self.transactional_id)
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
            if identity is not None:
                if connection.version_for(InitProducerIdRequest) < INIT_VERSION_WITH_IDENTITY:
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot increase a producer's epoch")
                request.producer_id, request.producer_epoch = identity
            response = await connection.send(request, InitProducerIdResponse)
            _raise_for(response.error_code, self.transactional_id)
            # As in Java's client, an upgrade while the producer works is for the next producer.
            if identity is None:
                self.is_version_2 = connection.finalized_features.get(TRANSACTION_VERSION, 0) >= TRANSACTION_VERSION_2
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        return await self._retry(attempt)

    async def add_partitions(self, identity: ProducerIdentity, partitions: Collection[TopicPartition]) -> None:
        """Enlist partitions, before data is sent to them."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, AddPartitionsToTxnTopic(name=partition.topic))
            topic.partitions.append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )

        async def attempt() -> None:
            connection = await self.cluster.transaction_coordinator(self.transactional_id)
            response = await connection.send(request, AddPartitionsToTxnResponse, highest=ADD_PARTITIONS_VERSION_MAX)
            codes = {
                TopicPartition(topic.name, entry.partition_index): entry.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            }
            # Partitions beside the one that has the error are OPERATION_NOT_ATTEMPTED.
            for partition, code in sorted(codes.items(), key=lambda item: item[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
                _raise_for(code, f"partition {partition}")

        await self._retry(attempt)

    async def commit_offsets(
        self, identity: ProducerIdentity, group: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commit a group's offsets as part of the transaction."""
        if not self.is_version_2:
            await self._add_offsets(identity, group.group_id)
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for partition, committed in offsets.items():
            topic = topics.setdefault(partition.topic, TxnOffsetCommitRequestTopic(name=partition.topic))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )
        highest = TxnOffsetCommitRequest.versions.last if self.is_version_2 else OFFSET_COMMIT_VERSION_MAX_1

        async def attempt() -> None:
            response = await self.cluster.send_to_coordinator(
                group.group_id, request, TxnOffsetCommitResponse, highest=highest
            )
            for topic in response.topics:
                for entry in topic.partitions:
                    _raise_for(entry.error_code, f"the offset of {topic.name}-{entry.partition_index}")

        await self.cluster.retry(attempt, never=(), group_id=group.group_id)

    async def _add_offsets(self, identity: ProducerIdentity, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )

        async def attempt() -> None:
            connection = await self.cluster.transaction_coordinator(self.transactional_id)
            response = await connection.send(request, AddOffsetsToTxnResponse)
            _raise_for(response.error_code, f"offsets of group {group_id}")

        await self._retry(attempt)

    async def end(self, identity: ProducerIdentity, *, committed: bool) -> ProducerIdentity:
        """Commit or abort; return the identity for the next transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        highest = EndTxnRequest.versions.last if self.is_version_2 else END_VERSION_MAX_1

        async def attempt() -> ProducerIdentity:
            connection = await self.cluster.transaction_coordinator(self.transactional_id)
            response = await connection.send(request, EndTxnResponse, highest=highest)
            _raise_for(response.error_code, f"the {'commit' if committed else 'abort'} of {self.transactional_id}")
            if response.producer_id < 0:
                return identity
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        return await self._retry(attempt)

    async def _retry(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self.cluster.retry(attempt, never=(), transactional_id=self.transactional_id)


def _raise_for(code: int, message: str) -> None:
    raise_for(ErrorCode.PRODUCER_FENCED if code == ErrorCode.INVALID_PRODUCER_EPOCH else code, message)
