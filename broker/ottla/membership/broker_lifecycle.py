"""`BrokerLifecycle`: a broker's states at the controller: register, heartbeat, unfence, controlled shutdown.

- STARTING until it has caught up with the metadata log up to its own registration,
- RECOVERY until the controller has unfenced it,
- RUNNING,
- PENDING_CONTROLLED_SHUTDOWN until the controller has moved its leaders to other brokers,
- SHUTTING_DOWN.

Source: KIP-631; BrokerLifecycleManager and BrokerState of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.errors import ErrorCode
from ottla.membership.controller_channel import ControllerChannel
from ottla.metadata.cluster import Listener, write_features, write_listeners
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.peers.denials import PeerDenials
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.raft.replica import other_cluster
from ottla.types import NodeId, Offset, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import broker_registration as registration_api
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

RETRY_BACKOFF_MS: Final = 100
"""First backoff after a failed attempt; it doubles up to the heartbeat interval."""

_MUST_REGISTER_AGAIN: Final = frozenset({ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH})

REPLACED: Final = (
    "is not part of the cluster any more: another process has registered under the same node.id since, and this one "
    "must not serve; if both are meant to run, give one of them another node.id"
)

logger = logging.getLogger(__name__)


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
    """Settings of the life cycle.

    Attributes:
        heartbeat_interval_ms: broker.heartbeat.interval.ms.
        session_timeout_ms: broker.session.timeout.ms.
        initial_registration_timeout_ms: initial.broker.registration.timeout.ms.
        own_principal: the principal that the controllers authenticate this node as, for log lines.
    """

    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    initial_registration_timeout_ms: int = 60_000
    own_principal: str = "of an unknown principal"


class BrokerLifecycle:
    """See the module.

    Args of the constructor:
        listeners: advertised listeners of the broker, by name.
        metadata_offset: returns the offset of the last metadata record that this broker has applied.
        directory_ids: returns the ids of the online log directories.
        offline_directory_ids: returns the ids of the log directories that failed.
        cordoned_directory_ids: returns the ids of the log directories that shall take no new replicas.
        previous_broker_epoch: of the clean-shutdown markers, -1 without them.
        on_state: called with every new state.
        on_failure: called with the reason, a sentence, when the broker cannot enter the cluster; the node must stop.

    Attributes:
        state: see the module.
        broker_epoch: -1 until registered.
        acknowledged_ms: monotonic time of the last successful heartbeat; 0 before the first.
        registration_error: the error of the last registration; NONE otherwise.
    """

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
        cordoned_directory_ids: Callable[[], list[Uuid]] = list,
        previous_broker_epoch: int = -1,
        config: BrokerLifecycleConfig | None = None,
        on_state: Callable[[BrokerState], None] | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._clock = clock
        self._channel = channel
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._listeners = listeners
        self._rack = rack
        self._metadata_offset = metadata_offset
        self._directory_ids = directory_ids
        self._offline_directory_ids = offline_directory_ids
        self._cordoned_directory_ids = cordoned_directory_ids
        self._shown_cordoned: list[Uuid] | None = None
        """Cordoned directories in the metadata; None while it cannot have any, or does not have this broker."""
        self._previous_broker_epoch = previous_broker_epoch
        self._config = config or BrokerLifecycleConfig()
        self._denials = PeerDenials(clock, self._config.own_principal)
        self._on_state = on_state
        self._on_failure = on_failure
        self.incarnation_id = random.uuid()
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch: Offset = -1
        self.acknowledged_ms = 0
        self.registration_error = ErrorCode.NONE
        self._is_ready = False
        self._was_registered = False
        self._is_in_flight = False
        self._next_ms: int | None = None
        self._backoff_ms = RETRY_BACKOFF_MS
        self._give_up_ms: int | None = None
        self._unfenced: Delayed[None] = Delayed()
        self._may_shut_down: Delayed[None] = Delayed()

    @property
    def unfenced(self) -> Delayed[None]:
        """Complete once the controller has unfenced the broker."""
        return self._unfenced

    def start(self) -> None:
        """Start to register at the next `tick`."""
        now_ms = self._clock.monotonic_ms()
        self._enter(BrokerState.STARTING)
        self._give_up_ms = now_ms + self._config.initial_registration_timeout_ms
        self._next_ms = now_ms

    def set_ready_to_unfence(self) -> None:
        """Note that the broker's own parts are up: heartbeats request to be unfenced from now on."""
        self._is_ready = True
        self._send_soon()

    def on_metadata_applied(self) -> None:
        """Note that more of the metadata log was applied: a fenced broker need not wait for its next heartbeat."""
        if self.state is BrokerState.STARTING and 0 <= self.broker_epoch <= self._metadata_offset():
            self._send_soon()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the image, as a publisher of the metadata loader; stop when it shows a successor of this process."""
        shown = image.cluster.brokers.get(self._node_id)
        if shown is not None and shown.incarnation_id != self.incarnation_id and 0 <= self.broker_epoch < shown.epoch:
            self._fail(REPLACED)
            return
        if shown is not None:
            is_supported = image.features.record_versions.supports_cordoned_directories
            self._shown_cordoned = sorted(shown.cordoned_directories) if is_supported else None
        self.on_metadata_applied()
        if self.state is BrokerState.RUNNING and self._takes_over(delta):
            # The controller must learn that this leader is alive: see `ottla.controller.last_known_leaders`.
            self._send_soon()

    def _takes_over(self, delta: MetadataDelta) -> bool:
        """Return whether this broker now leads a partition that another broker led before."""
        return any(
            partition.leader == self._node_id
            and (before := changed.image.partitions.get(index)) is not None
            and before.leader != self._node_id
            for changed in delta.topics.changed_topics.values()
            for index, partition in changed.partition_changes.items()
        )

    def on_directories_changed(self) -> None:
        """Note that directories were cordoned or have failed: the controller need not wait for the next heartbeat."""
        if self.state is BrokerState.RUNNING:
            self._send_soon()

    def begin_controlled_shutdown(self) -> Delayed[None]:
        """Request a controlled shutdown; complete when the controller has moved the leaders to other brokers.

        A broker that was never unfenced may stop at once.
        """
        if self.state is BrokerState.RUNNING:
            self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self._send_soon()
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._shut_down()
        return self._may_shut_down

    def tick(self, now_ms: int) -> int | None:
        """Send the registration or heartbeat that is due; return ``now_ms`` if one was, else the next deadline."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return due_ms
        if self._give_up_ms is not None and now_ms >= self._give_up_ms:
            self._give_up()
        if self._next_ms is None or now_ms < self._next_ms or self._is_in_flight:
            return now_ms
        self._is_in_flight = True
        self._next_ms = None
        if self.broker_epoch < 0:
            self._channel.send(self._registration()).on_complete(self._on_registration)
        else:
            self._channel.send(self._heartbeat()).on_complete(self._on_heartbeat)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to send, or gives up."""
        next_ms = None if self._is_in_flight else self._next_ms
        if next_ms is None or self._give_up_ms is None:
            return self._give_up_ms if next_ms is None else next_ms
        return min(next_ms, self._give_up_ms)

    # --- requests

    def _registration(self) -> Message:
        return registration_api.BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=write_listeners(self._listeners, registration_api.Listener),
            features=write_features(SUPPORTED_FEATURES, registration_api.Feature),
            rack=self._rack,
            log_dirs=sorted(self._directory_ids()),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _heartbeat(self) -> Message:
        cordoned = sorted(self._cordoned_directory_ids())
        return BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=sorted(self._offline_directory_ids()),
            # Below the metadata.version that has the field, a controller's heartbeats may not have it.
            cordoned_log_dirs=None if self._shown_cordoned in (None, cordoned) else cordoned,
        )

    # --- responses

    def _on_registration(self, response: Message) -> None:
        assert isinstance(response, registration_api.BrokerRegistrationResponse)
        self._is_in_flight = False
        error, before = ErrorCode(response.error_code), self.registration_error
        self.registration_error = error
        if error is not ErrorCode.NONE:
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._denials.note("of the active controller", "the registration as a broker")
            elif error is not before:
                logger.info("broker %d could not register: %s", self._node_id, self._explain(error))
            if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._fail(f"cannot enter the cluster: {self._explain(error)}")
                return
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION and self._was_registered:
                self._fail(REPLACED)
                return
            self._send_after_backoff()
            return
        self._give_up_ms = None
        self._was_registered = True
        self.broker_epoch = response.broker_epoch
        logger.info("broker %d is registered with epoch %d", self._node_id, self.broker_epoch)
        self._backoff_ms = RETRY_BACKOFF_MS
        self._send_soon()

    def _explain(self, error: ErrorCode) -> str:
        """Describe the cause of an error and its remedy."""
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return other_cluster(self._cluster_id)
        if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return (
                f"a broker with node.id={self._node_id} is registered and its session has not ended: it is another "
                "process, which needs another node.id, or this broker's last run, whose session ends by itself"
            )
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return (
                f"the controller denies it to this node, which authenticates as {self._config.own_principal}: add the "
                "principal to super.users on every node"
            )
        if error is ErrorCode.NOT_CONTROLLER:
            return "no active controller could be reached (see controller.quorum.bootstrap.servers)"
        return f"the controller responded with {error.name}"

    def _give_up(self) -> None:
        error = self.registration_error
        why = self._explain(ErrorCode.NOT_CONTROLLER if error is ErrorCode.NONE else error)
        self._fail(
            "cannot enter the cluster: not unfenced within initial.broker.registration.timeout.ms="
            f"{self._config.initial_registration_timeout_ms}: {why}"
        )

    def _fail(self, reason: str) -> None:
        self._give_up_ms = None
        self._shut_down()
        if self._on_failure is not None:
            self._on_failure(f"broker {self._node_id} {reason}")

    def _on_heartbeat(self, response: Message) -> None:
        assert isinstance(response, BrokerHeartbeatResponse)
        self._is_in_flight = False
        if response.error_code != ErrorCode.NONE:
            self._on_heartbeat_error(ErrorCode(response.error_code))
            return
        self.acknowledged_ms = self._clock.monotonic_ms()
        self._backoff_ms = RETRY_BACKOFF_MS
        if self._next_ms is None:
            # Unless something changed since the heartbeat was sent, which it did not carry.
            self._send_after(self._config.heartbeat_interval_ms)
        if self.state is BrokerState.STARTING and response.is_caught_up:
            self._enter(BrokerState.RECOVERY)
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self._enter(BrokerState.RUNNING)
            self._unfenced.complete(None)
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._shut_down()
            else:
                self._send_after(RETRY_BACKOFF_MS)

    def _on_heartbeat_error(self, error: ErrorCode) -> None:
        level = logging.DEBUG if error is ErrorCode.NOT_CONTROLLER else logging.INFO
        logger.log(level, "the controller rejected the heartbeat of broker %d: %s", self._node_id, error.name)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and error in _MUST_REGISTER_AGAIN:
            self._shut_down()
            return
        if error in _MUST_REGISTER_AGAIN:
            # It was unregistered: register again, with its former epoch as proof that it lost nothing.
            self._previous_broker_epoch, self.broker_epoch = self.broker_epoch, -1
            self._enter(BrokerState.STARTING)
        self._send_after_backoff()

    def _shut_down(self) -> None:
        self._enter(BrokerState.SHUTTING_DOWN)
        self._next_ms = self._give_up_ms = None
        self._may_shut_down.complete(None)

    def _enter(self, state: BrokerState) -> None:
        if state is self.state:
            return
        self.state = state
        logger.info("broker %d is %s", self._node_id, state.name)
        if self._on_state is not None:
            self._on_state(state)

    def _send_soon(self) -> None:
        self._send_after(0)

    def _send_after(self, delay_ms: int) -> None:
        if self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self._next_ms = self._clock.monotonic_ms() + delay_ms

    def _send_after_backoff(self) -> None:
        self._send_after(self._backoff_ms)
        self._backoff_ms = min(2 * self._backoff_ms, self._config.heartbeat_interval_ms)
