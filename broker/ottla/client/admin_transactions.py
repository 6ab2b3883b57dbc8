"""Transactions as an administrator sees them: their states, their producers, and those that no coordinator will end.

Source: AdminClient, TransactionsCommand (Kafka 4.3); KIP-664.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ottla.client.admin_base import AdminBase
from ottla.client.errors import UnsupportedApiError, kafka_error, raise_for
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, NodeId, Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in the list of its coordinator."""

    transactional_id: str
    producer_id: ProducerId
    state: str
    coordinator_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id and its current or last transaction."""

    transactional_id: str
    coordinator: Endpoint
    state: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    start_ms: int | None
    """None before the first transaction of the producer."""
    partitions: tuple[TopicPartition, ...]
    """Those whose markers are missing; `__consumer_offsets` has the offsets of groups."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """A producer that has written to a partition, as its leader knows it."""

    partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """None before the first marker."""
    start_offset: Offset | None
    """The first offset of the open transaction; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """An open transaction in a partition that its coordinator will not end."""

    producer: ProducerDescription
    transactional_id: str | None
    """None if no coordinator knows the producer id."""


class TransactionAdmin(AdminBase):
    """Calls about transactions."""

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[ProducerId] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of every coordinator, sorted; filters that are given must all match.

        Args:
            states: names of states, such as ``Ongoing``.
            producer_ids: producer ids.
            open_for_ms: transactions that started at least so long ago (Kafka 3.8).
            pattern: a regular expression (RE2) for the whole id (Kafka 4.1).

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, ...
            UnsupportedApiError: a broker is too old for a filter.
        """
        await self._retry(self.cluster.metadata)
        request = ListTransactionsRequest(
            state_filters=sorted(states),
            producer_id_filters=sorted(producer_ids),
            duration_filter=-1 if open_for_ms is None else open_for_ms,
            transactional_id_pattern=pattern,
        )
        lowest = 2 if pattern is not None else 1 if open_for_ms is not None else 0
        listed = await asyncio.gather(*(self._list_of(node_id, request, lowest) for node_id in self.cluster.nodes))
        found = (transaction for transactions in listed for transaction in transactions)
        return sorted(found, key=lambda transaction: transaction.transactional_id)

    async def _list_of(
        self, node_id: NodeId, request: ListTransactionsRequest, lowest: int
    ) -> list[TransactionListing]:
        async def attempt() -> list[TransactionListing]:
            connection = await self.cluster.node_connection(node_id)
            served = connection.version_for(ListTransactionsRequest)
            if served < lowest:
                raise UnsupportedApiError(f"broker {node_id} at {connection.endpoint} does not have this filter")
            response = await connection.send(request, ListTransactionsResponse, version=served)
            raise_for(response.error_code)
            return [
                TransactionListing(
                    transactional_id=it.transactional_id,
                    producer_id=it.producer_id,
                    state=it.transaction_state,
                    coordinator_id=node_id,
                )
                for it in response.transaction_states
            ]

        return await self._retry(attempt)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return the transactional ids that their coordinators know.

        Raises:
            KafkaError: any error but TRANSACTIONAL_ID_NOT_FOUND.
        """
        described = await asyncio.gather(*(self._describe(each) for each in transactional_ids))
        return {each.transactional_id: each for each in described if each is not None}

    async def _describe(self, transactional_id: str) -> TransactionDescription | None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def attempt() -> TransactionDescription | None:
            connection = await self.cluster.transaction_coordinator(transactional_id)
            response = await connection.send(request, DescribeTransactionsResponse)
            # Kafka leaves the empty id out.
            for state in response.transaction_states:
                if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise_for(state.error_code, f"transactional id {transactional_id}")
                    return _description(state, connection.endpoint)
            return None

        return await self.cluster.retry(attempt, transactional_id=transactional_id)

    async def describe_producers(self, partitions: Collection[TopicPartition]) -> list[ProducerDescription]:
        """Return the producers that leaders know, by partition and producer id.

        Raises:
            KafkaError: the error of the first partition that has one.
        """
        found: dict[TopicPartition, list[ProducerDescription]] = {}

        async def attempt() -> None:
            missing = [partition for partition in partitions if partition not in found]
            by_leader = await self._by_leader(missing)
            await asyncio.gather(*(self._producers_of(leader, of, found) for leader, of in by_leader.items()))

        await self._retry(attempt)
        return sorted(
            (producer for producers in found.values() for producer in producers),
            key=lambda producer: (producer.partition, producer.producer_id),
        )

    async def _producers_of(
        self,
        leader: NodeId,
        partitions: Collection[TopicPartition],
        found: dict[TopicPartition, list[ProducerDescription]],
    ) -> None:
        topics: dict[str, TopicRequest] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, TopicRequest(name=partition.topic))
            topic.partition_indexes.append(partition.partition)
        request = DescribeProducersRequest(topics=list(topics.values()))
        response = await self.cluster.send_to_node(leader, request, DescribeProducersResponse)
        first_error: KafkaError | None = None
        for result in response.topics:
            for entry in result.partitions:
                partition = TopicPartition(result.name, entry.partition_index)
                if entry.error_code:
                    self.cluster.invalidate_topic(result.name)
                    error = kafka_error(entry.error_code, entry.error_message or f"partition {partition}")
                    first_error = first_error or error
                else:
                    found[partition] = [_producer(partition, state) for state in entry.active_producers]
        if first_error is not None:
            raise first_error

    async def find_hanging_transactions(
        self, partitions: Collection[TopicPartition], *, idle_since_ms: int
    ) -> list[HangingTransaction]:
        """Return the open transactions of ``partitions`` that no coordinator has, in order of partitions.

        Those with a record after ``idle_since_ms`` are left out: a coordinator may not have heard of them yet.
        """
        producers = await self.describe_producers(partitions)
        idle = [it for it in producers if it.start_offset is not None and it.last_timestamp_ms <= idle_since_ms]
        if not idle:
            return []
        listed = await self.list_transactions(producer_ids={it.producer_id for it in idle})
        ids = {it.producer_id: it.transactional_id for it in listed}
        described = await self.describe_transactions(sorted(ids.values()))
        return [
            HangingTransaction(producer=it, transactional_id=ids.get(it.producer_id))
            for it in idle
            if not _will_end(it, described.get(ids.get(it.producer_id, "")))
        ]

    async def abort_in_partition(self, producer: ProducerDescription) -> None:
        """Write an abort marker for the open transaction of ``producer``, in place of its coordinator.

        Raises:
            KafkaError: TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH if the coordinator has written a marker
                meanwhile.
        """
        partition = producer.partition
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            coordinator_epoch=producer.coordinator_epoch or 0,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        )

        async def attempt() -> None:
            response = await self.cluster.send_to_leader(
                partition, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            code = response.markers[0].topics[0].partitions[0].error_code
            if code:
                self.cluster.invalidate_topic(partition.topic)
            raise_for(code, f"partition {partition}")

        await self._retry(attempt)


def _producer(partition: TopicPartition, state: ProducerState) -> ProducerDescription:
    return ProducerDescription(
        partition=partition,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        start_offset=None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


def _description(state: TransactionState, coordinator: Endpoint) -> TransactionDescription:
    partitions: Sequence[TopicPartition] = [
        TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions
    ]
    return TransactionDescription(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        partitions=tuple(sorted(partitions)),
    )


def _will_end(producer: ProducerDescription, transaction: TransactionDescription | None) -> bool:
    """Return whether the coordinator's transaction includes the producer's partition, so that it writes a marker."""
    return transaction is not None and producer.partition in transaction.partitions
