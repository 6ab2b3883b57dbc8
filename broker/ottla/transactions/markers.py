"""`MarkerSender`: requests the markers of prepared transactions from the leaders of their partitions.

To each leader goes one request at a time, with the markers of all transactions that wait for it, over a connection of
its own. A marker is requested until its leader has written it, or until the partition no longer exists. It may be
written twice: after a lost response, or by the next coordinator. Leaders accept that.

Source: TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerChannel, PeerResult
from ottla.peers.request_queues import LeaderLookup, RequestQueues
from ottla.ports import Clock
from ottla.quoting import quoted
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import LeaderEpoch, NodeId, ProducerId, TopicPartition
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


@dataclass(slots=True, eq=False)
class _Unfinished:
    """A transaction with markers that are not written yet."""

    metadata: TransactionMetadata
    coordinator_epoch: LeaderEpoch
    missing: set[TopicPartition]


_Marker: TypeAlias = tuple[_Unfinished, TopicPartition]


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
        leaders: LeaderLookup,
        listener: str,
        timeout_ms: int,
        on_written: Callable[[TransactionMetadata], None],
    ) -> None:
        self._clock = clock
        self._leaders = leaders
        self._listener = listener
        self._on_written = on_written
        self._unfinished: dict[str, _Unfinished] = {}
        self._by_leader: RequestQueues[dict[_Marker, None], _Marker] = RequestQueues(
            channel=channel,
            metadata=leaders,
            listener=listener,
            timeout_ms=timeout_ms,
            purpose=PURPOSE,
            new_queue=dict,
            take=self._take,
            to_request=_request,
            on_response=self._finish_request,
            on_node_gone=self._on_leader_gone,
        )
        self._retries: list[_Marker] = []
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

    def _enqueue(self, markers: Iterable[_Marker]) -> None:
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
                self._by_leader.queue_for(leader_id)[unfinished, partition] = None
                changed[leader_id] = None
        for leader_id in changed:
            self._by_leader.send_next(leader_id)

    def _take(self, waiting: dict[_Marker, None]) -> list[_Marker]:
        taken: list[_Marker] = []
        while waiting and len(taken) < PARTITIONS_PER_REQUEST:
            marker = next(iter(waiting))
            del waiting[marker]
            if self._is_current(marker[0]):
                taken.append(marker)
        return taken

    def _on_leader_gone(self, markers: list[_Marker]) -> None:
        for unfinished, partition in markers:
            self._retry_later(unfinished, partition)

    def _finish_request(self, sent: list[_Marker], response: PeerResult) -> None:
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


def _request(markers: list[_Marker]) -> WriteTxnMarkersRequest:
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
