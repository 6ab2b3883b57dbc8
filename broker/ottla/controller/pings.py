"""`BrokerPings`: a broker that is connected and responds to nothing is fenced long before its session ends.

A process that is stopped, or behind a network that drops its packets, keeps its connections open: nothing breaks, as
`BrokerProbes` would see. So a broker that the controller has not heard for `PING_AFTER_MS` gets a request. If it has
not responded after ottla.broker.response.timeout.ms, nor sent a heartbeat, it is not slow but hangs: brokers serve such
requests within milliseconds under any load (`runtime.ready_connections`).

Silence is evidence only if responses can arrive: from this broker before, or from another one lately. Where no broker
can be reached, for example because the controllers must not log in there, sessions decide alone. What arrived while
this controller itself was paused is read before it decides. A broker that returns is unsteady, as after a probe.

Kafka has no equivalent: it waits for the session (KIP-631).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.controller.heartbeats import BrokerHeartbeats
from ottla.controller.probes import BrokerProbes, endpoint_to_probe
from ottla.metadata.cluster import BrokerRegistration
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.types import Endpoint, NodeId, Offset

PingBroker: TypeAlias = Callable[[Endpoint, str], Delayed[PeerResult]]
"""Sends a request that every broker responds to at once to an endpoint of the listener of that name."""

PING_AFTER_MS: Final = 500
PROOF_LASTS_MS: Final = 10_000
"""How long a response of one broker shows that others could respond as well."""
PAUSE_MS_MIN: Final = 100
"""Ticks of a busy controller are late by a few milliseconds each time, which together would be most of the time."""
SETUP_ROUND_TRIPS: Final = 3
"""A response over a new connection takes so many: to connect, to agree on versions, and its own."""
SUSPECT_PART: Final = 4
"""A node that was silent before has this part of the time."""
UNHEARD_MS: Final = -(10**9)
"""In the place of the time of a response or heartbeat that never arrived: long before any time of the clock."""


@dataclass(slots=True, eq=False)
class _Ping:
    """A request in flight; ``sent_ms`` is later by what this controller was paused since."""

    sent_ms: int


@dataclass(slots=True)
class _Broker:
    """State of one incarnation of a broker."""

    epoch: Offset
    ping: _Ping | None = None
    responded_ms: int = UNHEARD_MS
    response_took_ms: int = 0
    """Of the last response."""


class BrokerPings:
    """Soft state of the active controller.

    Args of the constructor:
        ping: see `PingBroker`; None without a way to send requests: then sessions decide alone.
        listener: see `BrokerProbes`.
        timeout_ms: ottla.broker.response.timeout.ms; 0 sends no pings.
        heartbeats: the broker's heartbeats, which count as responses.
        probes: know which brokers are unsteady.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ping: PingBroker | None,
        listener: str,
        timeout_ms: int,
        heartbeats: BrokerHeartbeats,
        probes: BrokerProbes,
    ) -> None:
        self._clock = clock
        self._ping = ping if timeout_ms > 0 else None
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._heartbeats = heartbeats
        self._probes = probes
        self._brokers: dict[NodeId, _Broker] = {}
        self._due_ms: int | None = None
        self._suspect: NodeId | None = None

    def start(self, now_ms: int, former_leader: NodeId | None) -> None:
        """Reset: this controller has just become active, and knows nothing about the brokers.

        The process that led the quorum before may have a broker, too. If it was silent long enough to lose the quorum,
        it has less time.
        """
        self._brokers.clear()
        self._suspect = former_leader
        self._due_ms = None if self._ping is None else now_ms

    def extend(self, pause_ms: int) -> None:
        """Extend the time for responses by ``pause_ms``, during which this controller could not receive them."""
        if pause_ms < PAUSE_MS_MIN:
            return
        for state in self._brokers.values():
            if state.ping is not None:
                state.ping.sent_ms += pause_ms

    def run_round(self, brokers: Iterable[BrokerRegistration], now_ms: int) -> list[tuple[BrokerRegistration, int]]:
        """Send the pings that are due; return brokers that hang, with the milliseconds for which each was silent.

        ``brokers`` are those that are not fenced, without the one in this process.
        """
        if self._ping is None or self._due_ms is None or now_ms < self._due_ms:
            return []
        before, self._brokers = self._brokers, {}
        for broker in (all_brokers := list(brokers)):
            state = before.get(broker.broker_id)
            is_known = state is not None and state.epoch == broker.epoch
            self._brokers[broker.broker_id] = state if state is not None and is_known else _Broker(broker.epoch)
        silent = []
        due_ms = now_ms + PING_AFTER_MS
        for broker in all_brokers:
            state = self._brokers[broker.broker_id]
            heard_ms = max(state.responded_ms, self._heartbeats.heard_ms(broker.broker_id, broker.epoch, UNHEARD_MS))
            if state.ping is not None and heard_ms >= state.ping.sent_ms:
                state.ping = None
            if state.ping is None and now_ms >= heard_ms + PING_AFTER_MS:
                self._send(self._ping, broker, state, now_ms)
            if state.ping is None:
                due_ms = min(due_ms, heard_ms + PING_AFTER_MS)
            elif now_ms < (until_ms := state.ping.sent_ms + self._timeout_of(broker)):
                due_ms = min(due_ms, until_ms)
            else:
                silent_ms = now_ms - (state.ping.sent_ms if heard_ms == UNHEARD_MS else heard_ms)
                state.ping = None
                if self._is_evidence(broker, now_ms):
                    silent.append((broker, silent_ms))
        self._due_ms = max(due_ms, now_ms + 1)
        return silent

    def _timeout_of(self, broker: BrokerRegistration) -> int:
        """Return the time for a response, with that of a network as slow as the last responses."""
        is_suspect = broker.broker_id == self._suspect and self._brokers[broker.broker_id].responded_ms == UNHEARD_MS
        timeout_ms = self._timeout_ms // SUSPECT_PART if is_suspect else self._timeout_ms
        slowest_ms = max(state.response_took_ms for state in self._brokers.values())
        return timeout_ms + SETUP_ROUND_TRIPS * slowest_ms

    def _send(self, ping: PingBroker, broker: BrokerRegistration, state: _Broker, now_ms: int) -> None:
        found = endpoint_to_probe(broker, self._listener)
        if found is None:
            return
        sent = state.ping = _Ping(now_ms)

        def on_result(result: PeerResult) -> None:
            if not isinstance(result, PeerFailure):
                state.responded_ms = self._clock.monotonic_ms()
                state.response_took_ms = state.responded_ms - now_ms
            # Even a broken connection is a response: the broker does not hang, and its probe or session decides.
            if result is not PeerFailure.TIMED_OUT and state.ping is sent:
                state.ping = None

        ping(*found).on_complete(on_result)

    def _is_evidence(self, silent: BrokerRegistration, now_ms: int) -> bool:
        """Whether a response of the broker could have arrived, and it is steady."""
        newest_ms = max(state.responded_ms for state in self._brokers.values())
        could_arrive = self._brokers[silent.broker_id].responded_ms != UNHEARD_MS or now_ms - newest_ms < PROOF_LASTS_MS
        return could_arrive and not self._probes.extend_unsteadiness(silent, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `run_round` is due; None without pings."""
        return self._due_ms
