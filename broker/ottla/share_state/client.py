"""`PersisterClient`: a node's requests to share coordinators, for its leaders of partitions and group coordinators.

To each coordinator's node goes one request at a time, with the share-partitions of one group that wait for it; calls of
the same kind for other share-partitions of the group go with it. The node's own coordinator is called directly. A call
that fails because the coordinator moved, loads or did not respond is repeated after a back-off. Calls for one
share-partition are carried out one after the other, and each is repeated before the next one begins; summaries are read
at any time, so that nothing waits for them.

A call whose response is lost may be carried out twice. A write merges the same batches again, and an older epoch is
rejected. An initialization resets the state again, also with an equal state epoch: no member may use it before it has
succeeded.

Source: PersisterStateManager of Apache Kafka 4.3; its back-off begins at a second and ends after five tries.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerChannel, PeerFailure, PeerResult
from ottla.peers.request_queues import LeaderLookup, RequestQueues
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.share_state.messages import message_of
from ottla.share_state.persister import (
    Persister,
    ReadState,
    Result,
    SharePartitionKey,
    StateResult,
    StateSummary,
    StateWrite,
)
from ottla.share_state.requests import DELETE, INITIALIZE, READ, READ_SUMMARY, WRITE, StateApi
from ottla.types import SHARE_GROUP_STATE_TOPIC, LeaderEpoch, NodeId, Offset, TopicPartition, Uuid
from ottla.wire.codec import Message

PURPOSE: Final = "share-state"
PARTITIONS_PER_REQUEST: Final = 100
READS_PER_REQUEST: Final = 4
"""A response has up to 10,000 state batches of each partition, and is decoded at once."""
_BATCHES_PER_REQUEST: Final = 2_000
"""State batches after which a request of writes gets no further partition."""
TRIES_MAX: Final = 8
RETRY_BACKOFF_MS: Final = 100
"""Before the second try; doubled for each further one, so that the last one is after 12.7 s."""
_CALLS_PER_TICK: Final = 16
"""A call of this node's own coordinator takes 55 us."""
_GROUP_LENGTH_PER_CALL: Final = 1024
"""So many characters of a group id are hashed in the time of a call."""
_REPEATED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""As in Kafka. UNKNOWN_TOPIC_OR_PARTITION is not among them: the topic may have been deleted."""
_FAILURES: Final = {
    PeerFailure.UNSUPPORTED_VERSION: ErrorCode.UNSUPPORTED_VERSION,
    PeerFailure.TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
}


@dataclass(slots=True, eq=False)
class _Call:
    """One call of `Persister`, until it has a result; ``fields`` are its arguments besides the key."""

    kind: StateApi
    key: SharePartitionKey
    fields: dict[str, Any]
    result: Delayed[Any] = field(default_factory=Delayed)
    tries: int = 0


_Queue: TypeAlias = dict[tuple[StateApi, str], deque[_Call]]
"""The calls that wait for one node, by kind and group; in the order in which they came."""


class PersisterClient:
    """See the module, and `Persister`; a part of a node.

    Attributes:
        on_missing_topic: requests the creation of ``__share_group_state``; the node sets it once it can.

    Args of the constructor:
        node_id: of this node.
        own: the share coordinator of this node.
        partition_for: returns the partition of ``__share_group_state`` that holds a key; None without that topic.
        listener: name of the listener between brokers.
        timeout_ms: of a request.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        own: Persister,
        channel: PeerChannel,
        clock: Clock,
        metadata: LeaderLookup,
        partition_for: Callable[[SharePartitionKey], int | None],
        listener: str,
        timeout_ms: int,
    ) -> None:
        self._node_id = node_id
        self._own = own
        self._clock = clock
        self._metadata = metadata
        self._partition_for = partition_for
        self.on_missing_topic: Callable[[], None] = lambda: None
        self._listener = listener
        self._queues: dict[SharePartitionKey, deque[_Call]] = {}
        """The calls for each share-partition; the first one is being carried out."""
        self._retries: dict[int, list[_Call]] = {}
        """By the time when they are repeated."""
        self._due: deque[_Call] = deque()
        """To be carried out by `tick`, some at a time: a request may name one share-partition thousands of times."""
        self._nodes: RequestQueues[_Queue, _Call] = RequestQueues(
            channel=channel,
            metadata=metadata,
            listener=listener,
            timeout_ms=timeout_ms,
            purpose=PURPOSE,
            new_queue=dict,
            take=_take_for_one_request,
            to_request=_request,
            on_response=self._finish_request,
            # `tick` finds the next coordinator for some of them at a time.
            on_node_gone=self._due.extend,
        )

    # Persister

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: Offset) -> Delayed[StateResult]:
        return self._call(INITIALIZE, key, {"state_epoch": state_epoch, "start_offset": start_offset})

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        return self._call(READ, key, {"leader_epoch": leader_epoch})

    def read_summary(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[StateSummary]:
        return self._call(READ_SUMMARY, key, {"leader_epoch": leader_epoch})

    def write(self, key: SharePartitionKey, write: StateWrite) -> Delayed[StateResult]:
        return self._call(WRITE, key, {"write": write})

    def delete(self, key: SharePartitionKey) -> Delayed[StateResult]:
        return self._call(DELETE, key, {})

    # Time

    def tick(self, now_ms: int) -> int | None:
        """Repeat what has failed, once its back-off is over."""
        due_ms = min(self._retries, default=None)
        if due_ms is not None and due_ms <= now_ms:
            self._due.extend(self._retries.pop(due_ms))
        if not self._due:
            return due_ms
        left = _CALLS_PER_TICK
        # A call that has its result at once may be followed by the next one of its share-partition.
        while self._due and left > 0:
            call = self._due.popleft()
            left -= 1 + len(call.key.group_id) // _GROUP_LENGTH_PER_CALL
            self._try(call)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return self._clock.monotonic_ms() if self._due else min(self._retries, default=None)

    # Calls

    def _call(self, kind: StateApi, key: SharePartitionKey, fields: dict[str, Any]) -> Delayed[Any]:
        call = _Call(kind, key, fields)
        if kind is READ_SUMMARY:
            self._try(call)
            return call.result
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = deque((call,))
            self._try(call)
        else:
            queue.append(call)
        return call.result

    def _try(self, call: _Call) -> None:
        call.tries += 1
        partition = self._partition_for(call.key)
        if partition is None:
            self.on_missing_topic()
            self._retry(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        node_id = self._metadata.leader_id(TopicPartition(SHARE_GROUP_STATE_TOPIC, partition))
        if node_id == self._node_id:
            method = getattr(self._own, call.kind.method)
            method(call.key, **call.fields).on_complete(lambda result: self._on_result(call, result))
        elif node_id is None or self._metadata.broker_endpoint(node_id, self._listener) is None:
            self._retry(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._nodes.queue_for(node_id).setdefault((call.kind, call.key.group_id), deque()).append(call)
            self._nodes.send_next(node_id)

    def _on_result(self, call: _Call, result: Result) -> None:
        if result.error in _REPEATED and call.tries < TRIES_MAX:
            self._back_off(call)
        else:
            self._finish(call, result)

    def _retry(self, call: _Call, error: ErrorCode) -> None:
        self._on_result(call, call.kind.result(error, message_of(error)))

    def _back_off(self, call: _Call) -> None:
        due_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS * 2 ** (call.tries - 1)
        self._retries.setdefault(due_ms, []).append(call)

    def _finish(self, call: _Call, result: Result) -> None:
        if call.kind is not READ_SUMMARY:
            queue = self._queues[call.key]
            queue.popleft()
            if queue:
                self._due.append(queue[0])
            else:
                del self._queues[call.key]
        call.result.complete(result)

    # Requests

    def _finish_request(self, sent: list[_Call], response: PeerResult) -> None:
        kind = sent[0].kind
        results: dict[tuple[Uuid, int], Any] = {}
        if isinstance(response, PeerFailure):
            error = _FAILURES.get(response, ErrorCode.NETWORK_EXCEPTION)
        else:
            assert isinstance(response, kind.response), response
            results = kind.results(response)
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        for call in sent:
            result = results.get((call.key.topic_id, call.key.partition))
            self._on_result(call, kind.result(error, message_of(error)) if result is None else result)


def _take_for_one_request(queue: _Queue) -> list[_Call]:
    """Remove and return calls of one kind for one group."""
    taken: list[_Call] = []
    if not queue:
        return taken
    kind_and_group = next(iter(queue))
    waiting = queue.pop(kind_and_group)
    calls_max = READS_PER_REQUEST if kind_and_group[0] is READ else PARTITIONS_PER_REQUEST
    batches = 0
    while waiting and len(taken) < calls_max and batches < _BATCHES_PER_REQUEST:
        taken.append(waiting.popleft())
        if kind_and_group[0] is WRITE:
            batches += len(taken[-1].fields["write"].batches)
    if waiting:
        # Behind the others: a group with thousands of partitions must not keep them waiting.
        queue[kind_and_group] = waiting
    return taken


def _request(calls: list[_Call]) -> Message:
    kind = calls[0].kind
    partitions: dict[Uuid, list[Any]] = {}
    for call in calls:
        partition = kind.to_partition(call.key.partition, call.fields)
        partitions.setdefault(call.key.topic_id, []).append(partition)
    return kind.build(calls[0].key.group_id, partitions)
