"""`RequestQueues`: calls that wait for other nodes, with at most one request in flight to each node.

Calls that arrive while a request is in flight wait, and go together in the next one.
"""

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from ottla.peers.channel import PeerChannel, PeerResult
from ottla.types import Endpoint, NodeId, TopicPartition
from ottla.wire.codec import Message

QueueT = TypeVar("QueueT")
CallT = TypeVar("CallT")


class LeaderLookup(Protocol):
    """The cluster's metadata, as far as requests to leaders need it: `metadata.cache.MetadataCache`."""

    def leader_id(self, topic_partition: TopicPartition) -> NodeId | None:
        """Return the leader of a partition, -1 while it has none; None when the partition does not exist."""

    def broker_endpoint(self, broker_id: NodeId, listener: str) -> Endpoint | None:
        """Return the address of a broker that is alive."""


class _Node(Generic[QueueT]):
    """The calls that wait for one node."""

    __slots__ = ("is_busy", "queue")

    def __init__(self, queue: QueueT) -> None:
        self.queue = queue
        self.is_busy = False


class RequestQueues(Generic[QueueT, CallT]):
    """See the module.

    Args of the constructor:
        listener: name of the listener between brokers.
        timeout_ms: of a request.
        purpose: of the connections, see `PeerChannel`.
        new_queue: creates the queue of a node.
        take: removes the calls of the next request from a queue and returns them; none once nothing waits there.
        to_request: returns the request for calls.
        on_response: called with the calls of a request, and its response or failure.
        on_node_gone: called instead with calls that were not sent, because their node is not alive any more.
    """

    def __init__(
        self,
        *,
        channel: PeerChannel,
        metadata: LeaderLookup,
        listener: str,
        timeout_ms: int,
        purpose: str,
        new_queue: Callable[[], QueueT],
        take: Callable[[QueueT], list[CallT]],
        to_request: Callable[[list[CallT]], Message],
        on_response: Callable[[list[CallT], PeerResult], None],
        on_node_gone: Callable[[list[CallT]], None],
    ) -> None:
        self._channel = channel
        self._metadata = metadata
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._purpose = purpose
        self._new_queue = new_queue
        self._take = take
        self._to_request = to_request
        self._on_response = on_response
        self._on_node_gone = on_node_gone
        self._nodes: dict[NodeId, _Node[QueueT]] = {}

    def queue_for(self, node_id: NodeId) -> QueueT:
        """Return the queue of a node, to add calls; `send_next` must follow."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(self._new_queue())
        return node.queue

    def send_next(self, node_id: NodeId) -> None:
        """Send the calls that wait for a node, unless a request to it is in flight: then they are sent after that."""
        node = self._nodes.get(node_id)
        if node is None or node.is_busy:
            return
        node.is_busy = True
        # A loop: thousands of requests may fail at once, and each may cause further calls.
        while calls := self._take(node.queue):
            endpoint = self._metadata.broker_endpoint(node_id, self._listener)
            if endpoint is None:
                self._on_node_gone(calls)
                continue
            result = self._channel.send(
                endpoint, self._listener, self._to_request(calls), timeout_ms=self._timeout_ms, purpose=self._purpose
            )
            if not result.is_complete:
                result.on_complete(partial(self._finish, node_id, calls))
                return
            self._on_response(calls, result.value)
        del self._nodes[node_id]

    def _finish(self, node_id: NodeId, calls: list[CallT], response: PeerResult) -> None:
        self._on_response(calls, response)
        self._nodes[node_id].is_busy = False
        self.send_next(node_id)
