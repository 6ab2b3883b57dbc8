"""`PeerRequests`: at most one request at a time to each voter, and a backoff after a failed one.

The backoff doubles, so that a node that is down does not get fifty connection attempts a second.

Source: RequestManager of Apache Kafka.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from ottla.peers.channel import PeerFailure, PeerResult
from ottla.raft.replica import Replica
from ottla.types import NodeId
from ottla.wire.codec import Message

BACKOFF_MS_MAX: Final = 500

MessageT = TypeVar("MessageT", bound=Message)


class PeerRequests:
    """See the module. Responses to requests from before the last `reset` are dropped."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._generation = 0
        self._in_flight: set[NodeId] = set()
        self._failures: dict[NodeId, int] = {}
        self._retry_at_ms: dict[NodeId, int] = {}

    def reset(self) -> None:
        """Drop requests in flight and backoffs: the state has changed, and their responses do not apply any more."""
        self._generation += 1
        self._in_flight.clear()
        self._failures.clear()
        self._retry_at_ms.clear()

    def is_ready(self, peer: NodeId, now_ms: int) -> bool:
        retry_ms = self.retry_ms(peer)
        return retry_ms is not None and now_ms >= retry_ms

    def retry_ms(self, peer: NodeId) -> int | None:
        """Return when ``peer`` may be sent a request; None while one is in flight."""
        return None if peer in self._in_flight else self._retry_at_ms.get(peer, 0)

    def next_retry_ms(self, peers: list[NodeId]) -> int | None:
        """Return when the first of ``peers`` without a request in flight may be sent one."""
        retries_ms = [self.retry_ms(peer) for peer in peers]
        return min([retry_ms for retry_ms in retries_ms if retry_ms is not None], default=None)

    def send(
        self,
        peer: NodeId,
        request: Message,
        response_type: type[MessageT],
        on_response: Callable[[MessageT | PeerFailure], None],
    ) -> None:
        """Send ``request`` to the voter ``peer``, at its endpoint in the voter set."""
        endpoint = self._replica.endpoint_of(peer)
        if endpoint is None:
            self._pause(peer)
            return
        self._in_flight.add(peer)
        generation = self._generation

        def complete(response: PeerResult) -> None:
            if generation != self._generation:
                return
            self._in_flight.discard(peer)
            if isinstance(response, PeerFailure):
                self._pause(peer)
                on_response(response)
            else:
                assert isinstance(response, response_type), f"{response} is no response to {request}"
                self._failures.pop(peer, None)
                on_response(response)

        self._replica.send(endpoint, request, complete)

    def pause(self, peer: NodeId, now_ms: int, delay_ms: int) -> None:
        """Send nothing to ``peer`` for ``delay_ms``."""
        self._retry_at_ms[peer] = now_ms + delay_ms

    def _pause(self, peer: NodeId) -> None:
        failures = self._failures.get(peer, 0)
        self._failures[peer] = failures + 1
        backoff_ms = min(self._replica.config.retry_backoff_ms << min(failures, 10), BACKOFF_MS_MAX)
        self._retry_at_ms[peer] = self._replica.now_ms + backoff_ms
