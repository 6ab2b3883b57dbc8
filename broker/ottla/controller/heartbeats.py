"""`BrokerHeartbeats`: the last heartbeat of each broker at the active controller.

Soft state: it is in no record, and a new controller starts from the registrations, giving every broker that is not
fenced a full session.

Source: BrokerHeartbeatManager and BrokerHeartbeatTracker of Apache Kafka 4.3.
"""

from dataclasses import dataclass
from enum import Enum

from ottla.metadata.cluster import BrokerRegistration
from ottla.types import NodeId, Offset


class BrokerControlState(Enum):
    """The controller's state of a broker."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


@dataclass(slots=True)
class _Heartbeat:
    epoch: Offset
    last_contact_ms: int
    """Of the session: later than the heartbeat by what this controller was paused since."""
    heard_ms: int | None = None
    metadata_offset: Offset = -1
    controlled_shutdown_offset: Offset = -1
    count: int = 0
    is_connected: bool = False


class BrokerHeartbeats:
    """See the module. ``session_timeout_ms`` is broker.session.timeout.ms."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[NodeId, _Heartbeat] = {}
        self._deadline_ms: int | None = None
        """When the next session ends; None until it is computed again after a change, or without sessions."""

    def start(self, brokers: list[BrokerRegistration], now_ms: int) -> None:
        """Reset, and start a session for each broker that is not fenced."""
        self._deadline_ms = None
        self._brokers = {
            broker.broker_id: _Heartbeat(broker.epoch, now_ms) for broker in brokers if not broker.is_fenced
        }

    def touch(self, broker_id: NodeId, epoch: Offset, metadata_offset: Offset, now_ms: int) -> None:
        """Record a heartbeat of the broker."""
        self._deadline_ms = None
        heartbeat = self._brokers.get(broker_id)
        if heartbeat is None or heartbeat.epoch != epoch:
            heartbeat = self._brokers[broker_id] = _Heartbeat(epoch, now_ms)
        heartbeat.last_contact_ms = heartbeat.heard_ms = now_ms
        heartbeat.metadata_offset = metadata_offset
        heartbeat.count += 1
        heartbeat.is_connected = True

    def on_connection_lost(self, broker_id: NodeId, epoch: Offset) -> None:
        """Record that the connection of the broker's heartbeats broke."""
        heartbeat = self._brokers.get(broker_id)
        if heartbeat is not None and heartbeat.epoch == epoch:
            heartbeat.is_connected = False

    def is_connected(self, broker_id: NodeId, epoch: Offset) -> bool:
        """Whether this incarnation has sent this controller a heartbeat over a connection that has not broken since."""
        heartbeat = self._brokers.get(broker_id)
        return heartbeat is not None and heartbeat.epoch == epoch and heartbeat.is_connected

    def count(self, broker_id: NodeId, epoch: Offset) -> int:
        """Number of heartbeats in this session of this incarnation."""
        heartbeat = self._brokers.get(broker_id)
        return 0 if heartbeat is None or heartbeat.epoch != epoch else heartbeat.count

    def heard_ms(self, broker_id: NodeId, epoch: Offset, otherwise_ms: int) -> int:
        """Return when this incarnation sent its last heartbeat; ``otherwise_ms`` if it has sent none here."""
        heartbeat = self._brokers.get(broker_id)
        if heartbeat is None or heartbeat.epoch != epoch or heartbeat.heard_ms is None:
            return otherwise_ms
        return heartbeat.heard_ms

    def end_session(self, broker_id: NodeId) -> None:
        """Remove the broker's session: it was fenced or unregistered."""
        self._deadline_ms = None
        self._brokers.pop(broker_id, None)

    def has_valid_session(self, broker_id: NodeId, epoch: Offset, now_ms: int) -> bool:
        heartbeat = self._brokers.get(broker_id)
        return (
            heartbeat is not None
            and heartbeat.epoch == epoch
            and now_ms - heartbeat.last_contact_ms < self._session_timeout_ms
        )

    def extend(self, pause_ms: int) -> None:
        """Extend every session by ``pause_ms``, during which this controller could not receive heartbeats."""
        self._deadline_ms = None
        for heartbeat in self._brokers.values():
            heartbeat.last_contact_ms += pause_ms

    def begin_controlled_shutdown(self, broker_id: NodeId, offset: Offset) -> None:
        """Record the offset of the last record that moves the broker's leaders to other brokers."""
        heartbeat = self._brokers.get(broker_id)
        if heartbeat is not None and heartbeat.controlled_shutdown_offset < 0:
            heartbeat.controlled_shutdown_offset = offset

    def may_shut_down(self, broker_id: NodeId, active: list[NodeId]) -> bool:
        """Whether every active broker has applied the records that move the leaders."""
        heartbeat = self._brokers.get(broker_id)
        if heartbeat is None:
            return True
        offsets = [self._brokers[other].metadata_offset for other in active if other in self._brokers]
        return not offsets or heartbeat.controlled_shutdown_offset <= min(offsets)

    def stale(self, now_ms: int) -> list[NodeId]:
        """Brokers whose session has timed out, by id."""
        return sorted(
            broker_id
            for broker_id, heartbeat in self._brokers.items()
            if now_ms - heartbeat.last_contact_ms >= self._session_timeout_ms
        )

    def next_deadline_ms(self) -> int | None:
        """When the next session times out without another heartbeat."""
        if self._deadline_ms is None and self._brokers:
            oldest_ms = min([heartbeat.last_contact_ms for heartbeat in self._brokers.values()])
            self._deadline_ms = oldest_ms + self._session_timeout_ms
        return self._deadline_ms
