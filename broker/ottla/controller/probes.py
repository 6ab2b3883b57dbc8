"""`BrokerProbes`: a broker whose heartbeat connection broke is probed at once.

A process that ends closes its sockets, and from then on a client finds the connection refused at its listener: that is
proof enough to fence it without waiting for its session to time out. A node whose loop is stalled looks the same
(`runtime.stall_disconnect`). Any other result proves nothing; `BrokerPings` and the session decide.

Fencing a broker that is alive is safe, as epochs guard all that it does, but costs its partitions an election. So a
broker that sends a heartbeat in the same epoch after it was fenced (its process never ended: a disk that hung, a pause,
a network) is unsteady for a third of a session, and twice as long each time, up to ten minutes. Meanwhile no in-sync
set that has enough members takes it back (`AlterPartitionControl`): it leads nothing, no commit waits for it, and it
need not be fenced again when it fails again; that only restarts the time. A new incarnation proves that the process
did end: it is steady.

Kafka has no equivalent: it waits for the session (KIP-631).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.metadata.cluster import BrokerRegistration
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.types import Endpoint, NodeId, Offset

ProbeBroker: TypeAlias = Callable[[Endpoint, str], Delayed[PeerFailure | None]]
"""Probes an endpoint of the listener of that name; None when a process listens."""

UNSTEADY_PART: Final = 3
"""A broker is unsteady for this part of its session, at first."""
UNSTEADY_MS_MAX: Final = 10 * 60 * 1_000
FORGIVEN_AFTER_MS: Final = 60 * 60 * 1_000
"""A broker that was steady for so long starts again with the shortest time."""


@dataclass(slots=True)
class _Suspicion:
    """State of one incarnation of a broker."""

    epoch: Offset
    on_process_ended: Callable[[], bool] | None = None
    is_in_flight: bool = False
    was_fenced: bool = False
    returns: int = 0
    """How often it returned after it had been fenced."""
    unsteady_ms: int = 0
    unsteady_until_ms: int = 0


def endpoint_to_probe(broker: BrokerRegistration, listener: str) -> tuple[Endpoint, str] | None:
    """Return an endpoint of the broker and its listener: ``listener``, or the first one; None if it has none."""
    if not broker.listeners:
        return None
    name = listener if listener in broker.listeners else min(broker.listeners)
    return broker.listeners[name].endpoint, name


class BrokerProbes:
    """Soft state of the active controller.

    Args of the constructor:
        probe: see `ProbeBroker`; None without a way to probe: then no broker is ever suspected.
        listener: the listener to probe (inter.broker.listener.name); the broker's first one if it has none of that
            name.
        session_timeout_ms: broker.session.timeout.ms.
    """

    def __init__(self, *, probe: ProbeBroker | None, listener: str, session_timeout_ms: int) -> None:
        self._probe = probe
        self._listener = listener
        self._unsteady_ms_min = session_timeout_ms // UNSTEADY_PART
        self._suspicions: dict[NodeId, _Suspicion] = {}

    def start(self) -> None:
        """Reset: this controller has just become active."""
        self._suspicions.clear()

    def probe_broker(self, broker: BrokerRegistration, now_ms: int, on_process_ended: Callable[[], bool]) -> None:
        """Probe the broker; one probe at a time, whose result serves the latest call.

        ``on_process_ended`` is called when no process of a steady broker listens there any more; it returns whether it
        fenced the broker.
        """
        found = endpoint_to_probe(broker, self._listener)
        if self._probe is None or found is None:
            return
        suspicion = self._suspicion(broker)
        suspicion.on_process_ended = on_process_ended
        if suspicion.is_in_flight:
            return
        suspicion.is_in_flight = True

        def on_result(failure: PeerFailure | None) -> None:
            suspicion.is_in_flight = False
            on_ended = suspicion.on_process_ended
            if failure is not PeerFailure.CONNECTION_REFUSED or on_ended is None:
                return
            if not self.extend_unsteadiness(broker, now_ms) and on_ended():
                suspicion.was_fenced = True

        self._probe(*found).on_complete(on_result)

    def is_unsteady(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Whether the broker returned lately: it is not fenced before its session ends, and joins few in-sync sets."""
        return now_ms < self._suspicion(broker).unsteady_until_ms

    def extend_unsteadiness(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Note that the broker failed at ``now_ms``; return whether it is unsteady, for its whole time from then on."""
        if not self.is_unsteady(broker, now_ms):
            return False
        suspicion = self._suspicion(broker)
        suspicion.unsteady_until_ms = now_ms + suspicion.unsteady_ms
        return True

    def note_fenced(self, broker: BrokerRegistration) -> None:
        """Note that the broker was fenced before the end of its session, for another reason than a probe."""
        self._suspicion(broker).was_fenced = True

    def on_heartbeat(self, broker: BrokerRegistration, now_ms: int) -> int | None:
        """Record a heartbeat; if it proves that a fenced broker is alive, return for how many ms it is unsteady."""
        suspicion = self._suspicions.get(broker.broker_id)
        if suspicion is None or suspicion.epoch != broker.epoch or not suspicion.was_fenced:
            return None
        suspicion.was_fenced = False
        if now_ms - suspicion.unsteady_until_ms >= FORGIVEN_AFTER_MS:
            suspicion.returns = 0
        suspicion.unsteady_ms = min(self._unsteady_ms_min << suspicion.returns, UNSTEADY_MS_MAX)
        suspicion.unsteady_until_ms = now_ms + suspicion.unsteady_ms
        suspicion.returns += 1
        return suspicion.unsteady_ms

    def _suspicion(self, broker: BrokerRegistration) -> _Suspicion:
        suspicion = self._suspicions.get(broker.broker_id)
        if suspicion is None or suspicion.epoch != broker.epoch:
            suspicion = self._suspicions[broker.broker_id] = _Suspicion(broker.epoch)
        return suspicion
