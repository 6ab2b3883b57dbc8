"""`BrokerLifecycle`: a broker's life as the controller sees it: register, heartbeat, unfence, shut down in order.

Source: KIP-631; BrokerLifecycleManager and BrokerState of Apache Kafka.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.controller.channel import ControllerChannel
from ottla.metadata.cluster import Listener
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.types import NodeId, Offset, Uuid


class BrokerState(IntEnum):
    """Kafka's broker states, as the metric BrokerState shows them."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLifecycleConfig:
    """Attributes: broker.heartbeat.interval.ms, broker.session.timeout.ms, initial.broker.registration.timeout.ms."""

    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    initial_registration_timeout_ms: int = 60_000


class BrokerLifecycle:
    """See the module.

    Args of the constructor:
        metadata_offset: returns the offset up to which this broker has applied the metadata log.
        directory_ids: returns the ids of the online log directories.
        previous_broker_epoch: of the clean-shutdown marker, -1 without one.
    """

    state: BrokerState
    broker_epoch: Offset

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        channel: ControllerChannel,
        node_id: NodeId,
        cluster_id: str,
        listeners: Mapping[str, Listener],
        rack: str | None,
        metadata_offset: Callable[[], Offset],
        directory_ids: Callable[[], list[Uuid]],
        offline_directory_ids: Callable[[], list[Uuid]],
        previous_broker_epoch: int = -1,
        config: BrokerLifecycleConfig | None = None,
        on_state: Callable[[BrokerState], None] | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to register; `tick` does the rest."""
        raise NotImplementedError

    def set_ready_to_unfence(self) -> None:
        """Say that the broker's own parts are up: heartbeats ask to be unfenced from now on."""
        raise NotImplementedError

    @property
    def unfenced(self) -> Delayed[None]:
        """Complete once the controller has let the broker in."""
        raise NotImplementedError

    def begin_controlled_shutdown(self) -> Delayed[None]:
        """Ask the controller to move leaders away; complete when it says that the broker may go."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None: ...

    def next_deadline_ms(self) -> int | None: ...
