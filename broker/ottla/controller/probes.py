"""`BrokerProbes`: a broker whose heartbeat connection broke is probed at once.

A process that ends closes its sockets, and from then on a client finds the connection refused at its listener: that is
proof enough to fence it without waiting for its session to time out. A node whose loop is stalled looks the same
(`runtime.stall_disconnect`). Any other result proves nothing; `BrokerPings` and the session decide.

Fencing a broker that is alive is safe, as epochs guard all that it does, but costs its partitions an election. So each
false alarm (a broker that was fenced by a probe sends a heartbeat in the same epoch: its process never ended) makes the
controller ignore that broker's broken connections for a session, twice as long each time, up to an hour. A new
incarnation proves that the process did end: it starts without false alarms.

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

IGNORED_MS_MAX: Final = 60 * 60 * 1_000


@dataclass(slots=True)
class _Suspicion:
    """State of one incarnation of a broker."""

    epoch: Offset
    on_process_ended: Callable[[], bool] | None = None
    is_in_flight: bool = False
    was_fenced: bool = False
    false_alarms: int = 0
    ignored_until_ms: int = 0


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
        session_timeout_ms: how long connections are ignored after the first false alarm.
    """

    def __init__(self, *, probe: ProbeBroker | None, listener: str, session_timeout_ms: int) -> None:
        self._probe = probe
        self._listener = listener
        self._session_timeout_ms = session_timeout_ms
        self._suspicions: dict[NodeId, _Suspicion] = {}

    def start(self) -> None:
        """Reset: this controller has just become active."""
        self._suspicions.clear()

    def probe_broker(self, broker: BrokerRegistration, now_ms: int, on_process_ended: Callable[[], bool]) -> None:
        """Probe the broker, unless false alarms forbid it; one probe at a time, whose result serves the latest call.

        ``on_process_ended`` is called when no process listens there any more; it returns whether it fenced the broker.
        """
        found = endpoint_to_probe(broker, self._listener)
        if self._probe is None or found is None or self.ignores(broker, now_ms):
            return
        suspicion = self._suspicion(broker)
        suspicion.on_process_ended = on_process_ended
        if suspicion.is_in_flight:
            return
        suspicion.is_in_flight = True

        def on_result(failure: PeerFailure | None) -> None:
            suspicion.is_in_flight = False
            on_ended = suspicion.on_process_ended
            if failure is PeerFailure.CONNECTION_REFUSED and on_ended is not None and on_ended():
                suspicion.was_fenced = True

        self._probe(*found).on_complete(on_result)

    def ignores(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Whether false alarms forbid to fence the broker before its session ends."""
        return now_ms < self._suspicion(broker).ignored_until_ms

    def note_fenced(self, broker: BrokerRegistration) -> None:
        """Note that the broker was fenced before the end of its session, for another reason than a probe."""
        self._suspicion(broker).was_fenced = True

    def on_heartbeat(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Record a heartbeat; return whether it proves that the broker was fenced by a false alarm."""
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
