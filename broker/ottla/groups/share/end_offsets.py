"""`EndOffsetClient`: a group coordinator's requests to leaders for the end offsets of their partitions.

DescribeShareGroupOffsets needs them for the lag of a share group. To each leader goes one request at a time, with all
partitions that wait for it. A request without a response is repeated after a back-off, to the leader of that time.

The end is the high watermark, also for a group that reads committed records only: Kafka lists read_uncommitted.

Source: NetworkPartitionMetadataClient of Apache Kafka 4.3; its back-off starts at a second.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerChannel, PeerFailure, PeerResult
from ottla.peers.request_queues import LeaderLookup, RequestQueues
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.types import NodeId, Offset, TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

PURPOSE: Final = "end-offsets"
PARTITIONS_PER_REQUEST: Final = 100
TRIES_MAX: Final = 6
RETRY_BACKOFF_MS: Final = 100
"""Before the second try; doubled for each further one, so that the last one is after 3.1 s."""
_CALLS_PER_TICK: Final = 500
"""Calls that are repeated at once."""
_CONSUMER: Final = -1
_LATEST: Final = -1
_FAILURES: Final = {
    PeerFailure.UNSUPPORTED_VERSION: ErrorCode.UNKNOWN_SERVER_ERROR,
    PeerFailure.TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
}


class EndOffset(NamedTuple):
    """The end of a partition, or the error."""

    error: ErrorCode
    offset: Offset = -1


class EndOffsets(Protocol):
    """End offsets of partitions that any node leads. Implemented by `EndOffsetClient`."""

    def list_latest(self, partitions: Iterable[TopicPartition]) -> list[Delayed[EndOffset]]:
        """Return the end of each partition, in order."""


@dataclass(slots=True, eq=False)
class _Call:
    partition: TopicPartition
    result: Delayed[EndOffset] = field(default_factory=Delayed)
    tries: int = 0


class EndOffsetClient:
    """See the module, and `EndOffsets`; a part of a node.

    Args of the constructor:
        listener: name of the listener between brokers.
        timeout_ms: of a request.
    """

    def __init__(
        self, *, channel: PeerChannel, clock: Clock, metadata: LeaderLookup, listener: str, timeout_ms: int
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._listener = listener
        self._leaders: RequestQueues[deque[_Call], _Call] = RequestQueues(
            channel=channel,
            metadata=metadata,
            listener=listener,
            timeout_ms=timeout_ms,
            purpose=PURPOSE,
            new_queue=deque,
            take=_take_for_one_request,
            to_request=_request,
            on_response=self._finish_request,
            on_node_gone=self._on_leader_gone,
        )
        self._retries: dict[int, list[_Call]] = {}
        """By the time when they are repeated."""

    def list_latest(self, partitions: Iterable[TopicPartition]) -> list[Delayed[EndOffset]]:
        calls = [_Call(partition) for partition in partitions]
        self._try(calls)
        return [call.result for call in calls]

    # Time

    def tick(self, now_ms: int) -> int | None:
        """Repeat what has failed, once its back-off is over."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return due_ms
        calls = self._retries.pop(due_ms)
        if len(calls) > _CALLS_PER_TICK:
            self._retries[due_ms] = calls[_CALLS_PER_TICK:]
        self._try(calls[:_CALLS_PER_TICK])
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return min(self._retries, default=None)

    # Requests

    def _try(self, calls: Iterable[_Call]) -> None:
        leader_ids: dict[NodeId, None] = {}
        for call in calls:
            call.tries += 1
            leader_id = self._metadata.leader_id(call.partition)
            if leader_id is None or self._metadata.broker_endpoint(leader_id, self._listener) is None:
                call.result.complete(EndOffset(ErrorCode.LEADER_NOT_AVAILABLE))
            else:
                self._leaders.queue_for(leader_id).append(call)
                leader_ids[leader_id] = None
        # After the loop: the partitions of one leader go in one request.
        for leader_id in leader_ids:
            self._leaders.send_next(leader_id)

    def _on_leader_gone(self, calls: list[_Call]) -> None:
        self._retries.setdefault(self._clock.monotonic_ms() + RETRY_BACKOFF_MS, []).extend(calls)

    def _finish_request(self, sent: list[_Call], response: PeerResult) -> None:
        if isinstance(response, PeerFailure):
            error = _FAILURES.get(response, ErrorCode.NETWORK_EXCEPTION)
            for call in sent:
                if error is ErrorCode.UNKNOWN_SERVER_ERROR or call.tries >= TRIES_MAX:
                    call.result.complete(EndOffset(error))
                else:
                    self._back_off(call)
        else:
            assert isinstance(response, ListOffsetsResponse), response
            ends = {
                TopicPartition(topic.name, each.partition_index): EndOffset(ErrorCode(each.error_code), each.offset)
                for topic in response.topics
                for each in topic.partitions
            }
            for call in sent:
                call.result.complete(ends.get(call.partition, EndOffset(ErrorCode.UNKNOWN_SERVER_ERROR)))

    def _back_off(self, call: _Call) -> None:
        due_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS * 2 ** (call.tries - 1)
        self._retries.setdefault(due_ms, []).append(call)


def _take_for_one_request(waiting: deque[_Call]) -> list[_Call]:
    return [waiting.popleft() for _ in range(min(len(waiting), PARTITIONS_PER_REQUEST))]


def _request(calls: list[_Call]) -> ListOffsetsRequest:
    # A partition once: ListOffsets rejects duplicates, which two descriptions of a topic may ask for.
    topics: dict[str, dict[int, None]] = {}
    for call in calls:
        topics.setdefault(call.partition.topic, {})[call.partition.partition] = None
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indices],
            )
            for name, indices in topics.items()
        ],
    )
