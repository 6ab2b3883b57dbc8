"""`BrokerProbes`: a broker whose heartbeat connection broke is asked at once whether it is still there.

A process that ends closes its sockets, and from then on its host refuses connections to its listener: that is proof
enough to fence it without waiting for its session to end. Any other answer proves nothing, and the session decides.

Fencing a broker that lives is safe, for epochs guard all that it does, but costs its partitions an election. So each
false alarm (a broker that was fenced for a refusal heartbeats again in the same epoch: it never ended) makes the
controller ignore that broker's broken connections for a session, twice as long each time, up to an hour. A new
incarnation proves that the process did end: it starts without false alarms.

Kafka has nothing of the kind: it waits for the session (KIP-631).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.metadata.cluster import BrokerRegistration
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.types import Endpoint, NodeId, Offset

ProbeBroker: TypeAlias = Callable[[Endpoint, str], Delayed[PeerFailure | None]]
"""Whether somebody listens at an endpoint of the listener of that name; None when somebody does."""

IGNORED_MS_MAX: Final = 60 * 60 * 1_000


@dataclass(slots=True)
class _Suspicion:
    """What is known of one incarnation of a broker."""

    epoch: Offset
    on_refused: Callable[[], bool] | None = None
    is_asking: bool = False
    was_fenced: bool = False
    false_alarms: int = 0
    ignored_until_ms: int = 0


class BrokerProbes:
    """Soft state of the active controller.

    Args of the constructor:
        probe: see `ProbeBroker`; None where there is no way to ask: then nothing is ever suspected.
        listener: the listener to ask (inter.broker.listener.name); the broker's first one where it has none of that
            name.
        session_timeout_ms: how long the first false alarm counts.
    """

    def __init__(self, *, probe: ProbeBroker | None, listener: str, session_timeout_ms: int) -> None:
        self._probe = probe
        self._listener = listener
        self._session_timeout_ms = session_timeout_ms
        self._suspicions: dict[NodeId, _Suspicion] = {}

    def start(self) -> None:
        """Forget everything: this controller has just become active."""
        self._suspicions.clear()

    def ask(self, broker: BrokerRegistration, now_ms: int, on_refused: Callable[[], bool]) -> None:
        """Probe the broker, unless false alarms forbid it; one probe at a time, which then answers the latest question.

        ``on_refused`` is called when nobody listens there any more; it returns whether it fenced the broker.
        """
        if self._probe is None or not broker.listeners:
            return
        suspicion = self._suspicion(broker)
        if now_ms < suspicion.ignored_until_ms:
            return
        suspicion.on_refused = on_refused
        if suspicion.is_asking:
            return
        name = self._listener if self._listener in broker.listeners else min(broker.listeners)
        suspicion.is_asking = True

        def answered(failure: PeerFailure | None) -> None:
            suspicion.is_asking = False
            if failure is PeerFailure.REFUSED and suspicion.on_refused is not None and suspicion.on_refused():
                suspicion.was_fenced = True

        self._probe(broker.listeners[name].endpoint, name).on_complete(answered)

    def on_heartbeat(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Note that the broker is there; return whether it was fenced for a refusal and so has proved that wrong."""
        suspicion = self._suspicions.get(broker.broker_id)
        if suspicion is None or suspicion.epoch != broker.epoch or not suspicion.was_fenced:
            return False
        suspicion.was_fenced = False
        ignored_ms = min(self._session_timeout_ms << suspicion.false_alarms, IGNORED_MS_MAX)
        suspicion.false_alarms += 1
        suspicion.ignored_until_ms = now_ms + ignored_ms
        return True

    def _suspicion(self, broker: BrokerRegistration) -> _Suspicion:
        suspicion = self._suspicions.get(broker.broker_id)
        if suspicion is None or suspicion.epoch != broker.epoch:
            suspicion = self._suspicions[broker.broker_id] = _Suspicion(broker.epoch)
        return suspicion
