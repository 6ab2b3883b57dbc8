"""`MarkerSender`: requests the markers of prepared transactions from the leaders of their partitions.

To each leader goes one request at a time, with the markers of all transactions that wait for it, over a connection of
its own. A marker is requested until its leader has written it, or until the partition no longer exists. It may be
written twice: after a lost response, or by the next coordinator. Leaders accept that.

Source: TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerChannel, PeerResult
from ottla.ports import Clock
from ottla.quoting import quoted
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import Endpoint, LeaderEpoch, NodeId, ProducerId, TopicPartition
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = logging.getLogger(__name__)

PURPOSE: Final = "transaction-markers"
RETRY_BACKOFF_MS: Final = 100
PARTITIONS_PER_REQUEST: Final = 500
_FENCED: Final = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class PartitionLeaders(Protocol):
    """The cluster's metadata, as far as markers need it: `metadata.cache.MetadataCache`."""

    def leader_id(self, topic_partition: TopicPartition) -> NodeId | None:
        """Return the leader of a partition, -1 while it has none; None when the partition does not exist."""

    def broker_endpoint(self, broker_id: NodeId, listener: str) -> Endpoint | None:
        """Return the address of a broker that is alive."""


@dataclass(slots=True, eq=False)
class _Unfinished:
    """A transaction with markers that are not written yet."""

    metadata: TransactionMetadata
    coordinator_epoch: LeaderEpoch
    missing: set[TopicPartition]


@dataclass(slots=True)
class _Leader:
    """What waits for one leader; in the order in which it came."""

    waiting: dict[tuple[_Unfinished, TopicPartition], None] = field(default_factory=dict)
    is_busy: bool = False


class MarkerSender:
    """See the module.

    Args of the constructor:
        listener: name of the listener between brokers.
        timeout_ms: of a request.
        on_written: called with a transaction when every marker of it is written.
    """

    def __init__(
        self,
        *,
        channel: PeerChannel,
        clock: Clock,
        leaders: PartitionLeaders,
        listener: str,
        timeout_ms: int,
        on_written: Callable[[TransactionMetadata], None],
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._leaders = leaders
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._on_written = on_written
        self._unfinished: dict[str, _Unfinished] = {}
        self._by_leader: dict[NodeId, _Leader] = {}
        self._retries: list[tuple[_Unfinished, TopicPartition]] = []
        self._retry_ms: int | None = None

    def __len__(self) -> int:
        """Return the number of transactions with markers that are not written yet."""
        return len(self._unfinished)

    def is_sending(self, metadata: TransactionMetadata) -> bool:
        unfinished = self._unfinished.get(metadata.transactional_id)
        return unfinished is not None and unfinished.metadata is metadata

    def send(self, metadata: TransactionMetadata, coordinator_epoch: LeaderEpoch) -> None:
        """Send the markers of a prepared transaction, unless they are on their way."""
        if self.is_sending(metadata):
            return
        unfinished = _Unfinished(metadata, coordinator_epoch, set(metadata.partitions))
        self._unfinished[metadata.transactional_id] = unfinished
        self._enqueue((unfinished, partition) for partition in sorted(metadata.partitions))
        self._finish_if_written(unfinished)

    def cancel(self, transactional_ids: Iterable[str]) -> None:
        """Send nothing more for these ids."""
        for transactional_id in transactional_ids:
            self._unfinished.pop(transactional_id, None)

    # Time

    def tick(self, now_ms: int) -> int | None:
        """Repeat what has failed, once the back-off is over."""
        if self._retry_ms is None or now_ms < self._retry_ms:
            return self._retry_ms
        retries, self._retries, self._retry_ms = self._retries, [], None
        self._enqueue(retries)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return self._retry_ms

    # Requests

    def _enqueue(self, markers: Iterable[tuple[_Unfinished, TopicPartition]]) -> None:
        changed: dict[NodeId, None] = {}
        for unfinished, partition in markers:
            if not self._is_current(unfinished):
                continue
            leader_id = self._leaders.leader_id(partition)
            if leader_id is None:
                log.info(
                    "%s does not exist any more: transaction %s needs no marker there",
                    partition,
                    quoted(unfinished.metadata.transactional_id),
                )
                self._on_marker_written(unfinished, partition)
            elif self._leaders.broker_endpoint(leader_id, self._listener) is None:
                self._retry_later(unfinished, partition)
            else:
                self._by_leader.setdefault(leader_id, _Leader()).waiting[unfinished, partition] = None
                changed[leader_id] = None
        for leader_id in changed:
            self._send_next(leader_id)

    def _send_next(self, leader_id: NodeId) -> None:
        leader = self._by_leader.get(leader_id)
        if leader is None or leader.is_busy:
            return
        leader.is_busy = True
        # A loop: thousands of requests may fail at once.
        while sent := list(self._take(leader)):
            endpoint = self._leaders.broker_endpoint(leader_id, self._listener)
            if endpoint is None:
                for unfinished, partition in sent:
                    self._retry_later(unfinished, partition)
                continue
            result = self._channel.send(
                endpoint, self._listener, _request(sent), timeout_ms=self._timeout_ms, purpose=PURPOSE
            )
            if not result.is_complete:
                result.on_complete(partial(self._on_response, leader_id, sent))
                return
            self._finish_request(sent, result.value)
        del self._by_leader[leader_id]

    def _take(self, leader: _Leader) -> Iterator[tuple[_Unfinished, TopicPartition]]:
        taken = 0
        while leader.waiting and taken < PARTITIONS_PER_REQUEST:
            marker = next(iter(leader.waiting))
            del leader.waiting[marker]
            if self._is_current(marker[0]):
                taken += 1
                yield marker

    def _on_response(
        self, leader_id: NodeId, sent: list[tuple[_Unfinished, TopicPartition]], response: PeerResult
    ) -> None:
        self._finish_request(sent, response)
        self._by_leader[leader_id].is_busy = False
        self._send_next(leader_id)

    def _finish_request(self, sent: list[tuple[_Unfinished, TopicPartition]], response: PeerResult) -> None:
        errors: dict[tuple[ProducerId, TopicPartition], int] = {}
        if isinstance(response, WriteTxnMarkersResponse):
            for marker in response.markers:
                for topic in marker.topics:
                    for result in topic.partitions:
                        errors[marker.producer_id, TopicPartition(topic.name, result.partition_index)] = (
                            result.error_code
                        )
        for unfinished, partition in sent:
            if self._is_current(unfinished):
                self._on_marker_result(unfinished, partition, errors.get((unfinished.metadata.producer_id, partition)))

    def _on_marker_result(self, unfinished: _Unfinished, partition: TopicPartition, code: int | None) -> None:
        if code == ErrorCode.NONE:
            self._on_marker_written(unfinished, partition)
        elif code in _FENCED:
            # Another node has become the coordinator, and ends the transaction.
            log.warning(
                "%s rejected the marker of transaction %s (coordinator epoch %d): %s",
                partition,
                quoted(unfinished.metadata.transactional_id),
                unfinished.coordinator_epoch,
                ErrorCode(code).name,
            )
            self._unfinished.pop(unfinished.metadata.transactional_id, None)
        else:
            self._retry_later(unfinished, partition)

    def _on_marker_written(self, unfinished: _Unfinished, partition: TopicPartition) -> None:
        unfinished.missing.discard(partition)
        self._finish_if_written(unfinished)

    def _finish_if_written(self, unfinished: _Unfinished) -> None:
        if not unfinished.missing and self._is_current(unfinished):
            del self._unfinished[unfinished.metadata.transactional_id]
            self._on_written(unfinished.metadata)

    def _is_current(self, unfinished: _Unfinished) -> bool:
        return self._unfinished.get(unfinished.metadata.transactional_id) is unfinished

    def _retry_later(self, unfinished: _Unfinished, partition: TopicPartition) -> None:
        self._retries.append((unfinished, partition))
        if self._retry_ms is None:
            self._retry_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS


def _request(markers: list[tuple[_Unfinished, TopicPartition]]) -> WriteTxnMarkersRequest:
    """Return a request with one marker for each transaction."""
    topics: dict[_Unfinished, dict[str, list[int]]] = {}
    for unfinished, partition in markers:
        topics.setdefault(unfinished, {}).setdefault(partition.topic, []).append(partition.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=unfinished.metadata.producer_id,
                producer_epoch=unfinished.metadata.producer_epoch,
                transaction_result=unfinished.metadata.state is TransactionState.PREPARE_COMMIT,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()
                ],
                coordinator_epoch=unfinished.coordinator_epoch,
                transaction_version=unfinished.metadata.client_transaction_version,
            )
            for unfinished, by_topic in topics.items()
        ]
    )
