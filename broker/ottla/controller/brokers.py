"""`BrokerControl`: brokers register, send heartbeats, shut down in order, are fenced, and are unregistered.

Source: KIP-631, KIP-841, KIP-866, KIP-966; ClusterControlManager and ReplicationControlManager of Apache Kafka 4.3.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from ottla.controller.heartbeats import BrokerControlState, BrokerHeartbeats
from ottla.controller.leader_and_isr import LeaderAndIsrControl
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.cluster import RESERVED_DIRECTORIES_END, BrokerRegistration, read_features, read_listeners
from ottla.metadata.metadata_version import METADATA_VERSION
from ottla.metadata.records import MetadataRecord
from ottla.quoting import cut_name
from ottla.types import Offset, Uuid, format_uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.metadata_log import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

FENCE, UNFENCE = 1, -1
ENTER_CONTROLLED_SHUTDOWN = 1
_CHANGE_WITH_DIRECTORIES = 2
_CHANGE_WITH_SHUTDOWN = 1
_CHANGE_WITH_CORDONED = 3

logger = logging.getLogger(__name__)


class BrokerControl:
    """Decides on the newest state; changes only ``heartbeats`` itself."""

    def __init__(
        self,
        state: ControllerState,
        leader_and_isr: LeaderAndIsrControl,
        heartbeats: BrokerHeartbeats,
        *,
        cluster_id: str,
    ) -> None:
        self._state = state
        self._leader_and_isr = leader_and_isr
        self._heartbeats = heartbeats
        self._cluster_id = cluster_id

    # --- registration

    def register(
        self, request: BrokerRegistrationRequest, *, next_offset: Offset, now_ms: int
    ) -> ControllerResult[BrokerRegistrationResponse]:
        """Register a broker, fenced; ``next_offset`` becomes its epoch.

        Raises:
            KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION,
                UNSUPPORTED_VERSION.
        """
        self._check_registration(request)
        existing = self._state.image.cluster.brokers.get(request.broker_id)
        is_same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
        if existing is not None and not is_same_incarnation:
            self._reject_duplicate(existing, request, now_ms)
        changes: Iterable[MetadataRecord | None] = ()
        epoch = next_offset
        if existing is not None and is_same_incarnation:
            epoch = existing.epoch
        else:
            changes = self._end_previous_incarnation(request, existing)
            self._heartbeats.end_session(request.broker_id)
        registration = _registration(request, epoch, keeps=existing if is_same_incarnation else None)
        record = registration.to_record(self._state.image.features.record_versions)
        subject = f"registering broker {request.broker_id}, epoch {epoch}"
        return ControllerResult(
            BrokerRegistrationResponse(broker_epoch=epoch), chain(_logged(subject, changes), [record]), is_atomic=False
        )

    def _reject_duplicate(self, existing: BrokerRegistration, request: BrokerRegistrationRequest, now_ms: int) -> None:
        """Reject another process with the id of one that may still be alive.

        Kafka lets every session end first. A process that holds the same log directories, whose lock only one can hold,
        is the next incarnation of one that is gone, unless that one is connected: then the directories are copies.
        """
        if not self._heartbeats.has_valid_session(existing.broker_id, existing.epoch, now_ms):
            return
        has_its_directories = bool(existing.directories) and set(existing.directories) == set(request.log_dirs)
        is_next = has_its_directories and not self._heartbeats.is_connected(existing.broker_id, existing.epoch)
        if not is_next and not existing.in_controlled_shutdown:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )

    def _end_previous_incarnation(
        self, request: BrokerRegistrationRequest, existing: BrokerRegistration | None
    ) -> Iterator[MetadataRecord | None]:
        """Take the broker out of in-sync sets; also out of eligible replicas unless it stopped cleanly.

        A clean shutdown is proved by its former epoch: the process writes it as the last thing before it ends.
        """
        stopped_cleanly = existing is not None and request.previous_broker_epoch == existing.epoch
        if self._state.image.features.is_elr_enabled and not stopped_cleanly:
            return self._leader_and_isr.on_unclean_shutdown(request.broker_id, frozenset(request.log_dirs))
        return self._leader_and_isr.on_fenced(request.broker_id)

    def _check_registration(self, request: BrokerRegistrationRequest) -> None:
        if request.cluster_id != self._cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self._cluster_id}, but got cluster ID {cut_name(request.cluster_id)}",
            )
        versions = self._state.image.features.record_versions
        if versions.supports_directories:
            if not request.log_dirs:
                raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
            self._check_directories(request)
        offered = {feature.name: feature for feature in request.features}
        if METADATA_VERSION not in offered:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
        for name, level in sorted(self._state.image.features.levels.items()):
            feature = offered.get(name)
            first, last = (feature.min_supported_version, feature.max_supported_version) if feature else (0, 0)
            if not first <= level <= last:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                    f"broker wants a version between {first} and {last}, inclusive.",
                )

    def _check_directories(self, request: BrokerRegistrationRequest) -> None:
        if any(directory < RESERVED_DIRECTORIES_END for directory in request.log_dirs):
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
        if len(set(request.log_dirs)) < len(request.log_dirs):
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
        wanted = frozenset(request.log_dirs)
        for broker_id, broker in sorted(self._state.image.cluster.brokers.items()):
            taken = wanted.intersection(broker.directories)
            if taken and broker_id != request.broker_id:
                raise KafkaError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker_id} is already registered with directory {format_uuid(min(taken))}",
                )

    def unregister(self, request: UnregisterBrokerRequest) -> ControllerResult[UnregisterBrokerResponse]:
        """Unregister a broker permanently.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED.
        """
        broker = self._state.image.cluster.brokers.get(request.broker_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
            )
        changes = self._leader_and_isr.on_fenced(request.broker_id)
        record = MetadataRecord(UnregisterBrokerRecord(broker_id=request.broker_id, broker_epoch=broker.epoch), 0)
        self._heartbeats.end_session(request.broker_id)
        return ControllerResult(
            UnregisterBrokerResponse(error_message=None),
            chain(_logged(f"unregistering broker {request.broker_id}", changes), [record]),
            is_atomic=False,
        )

    # --- heartbeats

    def heartbeat(self, request: BrokerHeartbeatRequest, *, now_ms: int) -> ControllerResult[BrokerHeartbeatResponse]:
        """Record a broker's heartbeat, and move the broker to its next state.

        Raises:
            KafkaError: STALE_BROKER_EPOCH: the broker must register again.
        """
        broker = self._state.broker_with_epoch(request.broker_id, request.broker_epoch)
        self._heartbeats.touch(broker.broker_id, broker.epoch, request.current_metadata_offset, now_ms)
        current, following = self._next_state(broker, request)
        if following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW) and not broker.is_fenced:
            self._heartbeats.end_session(broker.broker_id)
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= broker.epoch,
            is_fenced=following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        )
        begins_shutdown = following is BrokerControlState.CONTROLLED_SHUTDOWN and current is not following
        begin = partial(self._heartbeats.begin_controlled_shutdown, broker.broker_id) if begins_shutdown else None
        return ControllerResult(
            response,
            chain(
                self._transition(broker, current, following),
                self._directories_offline(broker, request.offline_log_dirs),
                self._directories_cordoned(broker, request.cordoned_log_dirs),
            ),
            is_atomic=False,
            on_appended=begin,
        )

    def _next_state(
        self, broker: BrokerRegistration, request: BrokerHeartbeatRequest
    ) -> tuple[BrokerControlState, BrokerControlState]:
        state = BrokerControlState
        if broker.is_fenced:
            if request.want_shut_down:
                return state.FENCED, state.SHUTDOWN_NOW
            is_caught_up = request.current_metadata_offset >= broker.epoch
            return state.FENCED, state.UNFENCED if is_caught_up and not request.want_fence else state.FENCED
        has_leaderships = self._state.has_leaderships(broker.broker_id)
        if broker.in_controlled_shutdown:
            active = [
                other for other in self._state.image.cluster.brokers if self._state.image.cluster.is_active(other)
            ]
            may_go = not has_leaderships and self._heartbeats.may_shut_down(broker.broker_id, active)
            return state.CONTROLLED_SHUTDOWN, state.SHUTDOWN_NOW if may_go else state.CONTROLLED_SHUTDOWN
        if request.want_fence:
            return state.UNFENCED, state.SHUTDOWN_NOW if request.want_shut_down else state.FENCED
        if request.want_shut_down:
            return state.UNFENCED, state.CONTROLLED_SHUTDOWN if has_leaderships else state.SHUTDOWN_NOW
        return state.UNFENCED, state.UNFENCED

    def _transition(
        self, broker: BrokerRegistration, current: BrokerControlState, following: BrokerControlState
    ) -> Iterator[MetadataRecord | None]:
        if current is following or (broker.is_fenced and following is BrokerControlState.SHUTDOWN_NOW):
            return iter(())
        subject = f"broker {broker.broker_id} goes from {current.value} to {following.value}"
        if following is BrokerControlState.UNFENCED:
            # First: no partition is led by a fenced broker. The next controller elects the leaders that are missing.
            elections = self._leader_and_isr.on_unfenced(broker.broker_id)
            return chain([_change(broker, fenced=UNFENCE)], _logged(subject, elections))
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            # Last: if this controller ends before it, the next heartbeat moves the other leaders.
            changes = self._leader_and_isr.on_fenced(broker.broker_id)
            own = _change(broker, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN)
            return chain(_logged(subject, changes), [own])
        return self._fence(broker, subject)

    def fence(self, broker: BrokerRegistration, reason: str) -> ControllerResult[None]:
        """Fence the broker; ``reason`` is for the log, after "fencing broker 1: "."""
        return ControllerResult(
            None, self._fence(broker, f"fencing broker {broker.broker_id}: {reason}"), is_atomic=False
        )

    def _fence(self, broker: BrokerRegistration, subject: str) -> Iterator[MetadataRecord | None]:
        changes = self._leader_and_isr.on_fenced(broker.broker_id)
        return chain(_logged(subject, changes), [_change(broker, fenced=FENCE)])

    def end_stale(self, now_ms: int) -> list[BrokerRegistration]:
        """End the sessions that have timed out; return their brokers, which are to be fenced."""
        ended = self._heartbeats.stale(now_ms)
        for broker_id in ended:
            self._heartbeats.end_session(broker_id)
        brokers = self._state.image.cluster.brokers
        return [brokers[each] for each in ended if each in brokers and not brokers[each].is_fenced]

    def _directories_offline(self, broker: BrokerRegistration, offline: list[Uuid]) -> Iterator[MetadataRecord | None]:
        newly_offline = frozenset(offline) & frozenset(broker.directories)
        if not newly_offline:
            return
        online = [directory for directory in broker.directories if directory not in newly_offline]
        logger.warning(
            "broker %d has lost %d of %d log directories", broker.broker_id, len(newly_offline), len(broker.directories)
        )
        record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=online)
        yield MetadataRecord(record, _CHANGE_WITH_DIRECTORIES)
        yield from self._leader_and_isr.on_directories_offline(broker.broker_id, newly_offline)

    def _directories_cordoned(self, broker: BrokerRegistration, cordoned: list[Uuid] | None) -> list[MetadataRecord]:
        """Note which directories are to take no new replicas (KIP-1066); None says nothing about it."""
        versions = self._state.image.features.record_versions
        if cordoned is None or not versions.supports_cordoned_directories:
            return []
        if sorted(cordoned) == sorted(broker.cordoned_directories):
            return []
        record = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned
        )
        return [MetadataRecord(record, _CHANGE_WITH_CORDONED)]


def _logged(subject: str, changes: Iterable[MetadataRecord | None]) -> Iterator[MetadataRecord | None]:
    """Yield ``changes`` of partitions, and log their number at the end."""
    count = 0
    for change in changes:
        yield change
        count += change is not None
    logger.info("%s; %d partitions change", subject, count)


def _change(broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> MetadataRecord:
    return MetadataRecord(
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
        ),
        _CHANGE_WITH_SHUTDOWN if in_controlled_shutdown else 0,
    )


def _registration(
    request: BrokerRegistrationRequest, epoch: Offset, *, keeps: BrokerRegistration | None
) -> BrokerRegistration:
    """Return what the request registers; a repeated request of one incarnation keeps its fencing."""
    return BrokerRegistration(
        broker_id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        listeners=read_listeners(request.listeners),
        features=read_features(request.features),
        rack=request.rack,
        is_fenced=True if keeps is None else keeps.is_fenced,
        in_controlled_shutdown=False if keeps is None else keeps.in_controlled_shutdown,
        directories=tuple(sorted(request.log_dirs)),
        cordoned_directories=() if keeps is None else keeps.cordoned_directories,
    )
