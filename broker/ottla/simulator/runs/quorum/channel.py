"""`SimulatedChannel`: carries requests and responses between simulated replicas, encoded and decoded, or loses them."""

from typing import TYPE_CHECKING

from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message

if TYPE_CHECKING:
    from ottla.simulator.runs.quorum.replica import SimulatedReplica
    from ottla.simulator.runs.quorum.simulation import SimulatedQuorum


class SimulatedChannel:
    """The `PeerChannel` of one node: everything is encoded and decoded, as on a real connection."""

    def __init__(self, quorum: "SimulatedQuorum", source: "SimulatedReplica") -> None:
        self._quorum = quorum
        self._source = source
        self._generation = source.generation

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        del listener, purpose
        quorum, result = self._quorum, Delayed[PeerResult]()
        version = type(request).versions.last
        data = request.encode(version)

        def deliver(value: PeerResult) -> None:
            if self._source.generation == self._generation:
                result.complete(value)

        quorum.after(timeout_ms, lambda: deliver(PeerFailure.TIMED_OUT))
        target = quorum.replica_at(endpoint)

        def arrive() -> None:
            if not quorum.is_open(self._source.node_id, target.node_id):
                return
            if not target.is_running:
                quorum.after(quorum.latency_ms(), lambda: deliver(PeerFailure.CONNECTION_REFUSED))
                return
            generation = target.generation
            response = quorum.serve(target, type(request).decode(data, version))

            def leave(value: Message) -> None:
                if target.generation != generation:
                    return
                encoded = value.encode(version)
                quorum.after(quorum.latency_ms(), lambda: back(type(value).decode(encoded, version)))

            response.on_complete(leave)
            quorum.on_end_of(target, lambda: quorum.after(quorum.latency_ms(), lambda: back(PeerFailure.DISCONNECTED)))

        def back(value: PeerResult) -> None:
            if quorum.is_open(target.node_id, self._source.node_id):
                deliver(value)

        quorum.after(quorum.latency_ms(), arrive)
        return result

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        del endpoint, listener, timeout_ms
        raise NotImplementedError("the quorum does not probe")
