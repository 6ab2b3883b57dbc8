"""Queues of calls for other nodes: one request in flight to each node, and what arrives meanwhile goes together."""

from ottla.peers.channel import PeerFailure, PeerResult
from ottla.peers.request_queues import RequestQueues
from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from transaction_node import ScriptedPeers

CALLS_PER_REQUEST = 3


class FailingPeers(ScriptedPeers):
    """Peers to which no request can be sent."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        super().send(endpoint, listener, request, timeout_ms=timeout_ms, purpose=purpose)
        return Delayed.of(PeerFailure.CONNECTION_REFUSED)


class Caller:
    """Calls are names, of which a request has up to `CALLS_PER_REQUEST`."""

    def __init__(self, peers: ScriptedPeers) -> None:
        self.peers = peers
        self.finished: list[tuple[list[str], PeerResult]] = []
        self.gone: list[str] = []
        self.followers: dict[str, list[str]] = {}
        """Calls that the result of a call causes."""
        self.queues: RequestQueues[list[str], str] = RequestQueues(
            channel=peers,
            metadata=peers,
            listener="PLAINTEXT",
            timeout_ms=30_000,
            purpose="test",
            new_queue=list,
            take=self._take,
            to_request=lambda calls: DeleteTopicsRequest(topic_names=calls),
            on_response=self._on_response,
            on_node_gone=self.gone.extend,
        )

    @staticmethod
    def _take(queue: list[str]) -> list[str]:
        taken = queue[:CALLS_PER_REQUEST]
        del queue[:CALLS_PER_REQUEST]
        return taken

    def _on_response(self, calls: list[str], response: PeerResult) -> None:
        self.finished.append((calls, response))
        for call in calls:
            for follower in self.followers.pop(call, []):
                self.call(1, follower)

    def call(self, node_id: int, *names: str) -> None:
        self.queues.queue_for(node_id).extend(names)
        self.queues.send_next(node_id)

    def sent(self) -> list[tuple[int, list[str]]]:
        """Return node and calls of each request that is in flight, and respond to all of them."""
        requests = self.peers.take()
        found: list[tuple[int, list[str]]] = []
        for sent in requests:
            assert isinstance(sent.request, DeleteTopicsRequest)
            assert sent.purpose == "test"
            found.append((sent.endpoint.port, sent.request.topic_names))
            sent.result.complete(DeleteTopicsResponse())
        return found


def test_calls_wait_for_the_request_in_flight_and_go_together() -> None:
    caller = Caller(ScriptedPeers())
    for name in "abcdef":
        caller.call(1, name)

    assert caller.sent() == [(1, ["a"])]
    assert caller.sent() == [(1, ["b", "c", "d"])]
    assert caller.sent() == [(1, ["e", "f"])]
    assert caller.sent() == []
    assert caller.finished == [
        (["a"], DeleteTopicsResponse()),
        (["b", "c", "d"], DeleteTopicsResponse()),
        (["e", "f"], DeleteTopicsResponse()),
    ]


def test_node_does_not_wait_for_the_request_to_another() -> None:
    caller = Caller(ScriptedPeers())
    caller.call(1, "a")
    caller.call(2, "b")

    assert caller.sent() == [(1, ["a"]), (2, ["b"])]


def test_calls_that_a_response_causes_go_together() -> None:
    caller = Caller(ScriptedPeers())
    caller.followers = {"a": ["b", "c"]}
    caller.call(1, "a")

    assert caller.sent() == [(1, ["a"])]
    assert caller.sent() == [(1, ["b", "c"])]


def test_calls_for_a_node_that_is_gone_are_returned() -> None:
    peers = ScriptedPeers()
    caller = Caller(peers)
    caller.call(1, "a")
    caller.call(1, "b", "c", "d", "e")
    peers.alive.remove(1)

    assert caller.sent() == [(1, ["a"])]

    assert caller.gone == ["b", "c", "d", "e"]
    peers.alive.add(1)
    caller.call(1, "f")
    assert caller.sent() == [(1, ["f"])]


def test_thousands_of_failures_do_not_exhaust_the_stack() -> None:
    caller = Caller(FailingPeers())
    caller.followers = {str(number): [str(number + 1)] for number in range(5_000)}

    caller.call(1, "0")

    assert [calls for calls, _ in caller.finished] == [[str(number)] for number in range(5_001)]
    assert {response for _, response in caller.finished} == {PeerFailure.CONNECTION_REFUSED}
