"""Nodes of the cluster: registered brokers and controllers.

Source: KIP-631, KIP-919; BrokerRegistration, ControllerRegistration and ClusterImage of Apache Kafka.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.metadata.metadata_version import FeatureRange, RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.types import Endpoint, NodeId, Offset, Uuid
from ottla.wire.messages.metadata_log import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

DIRECTORY_MIGRATING: Final = Uuid(bytes(16))
DIRECTORY_UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
DIRECTORY_LOST: Final = Uuid(bytes(15) + b"\x02")
RESERVED_DIRECTORIES_END: Final = Uuid(bytes(15) + b"\x64")
"""Lower ids are reserved or may become so; no log directory has one."""

_NOT_YET_KNOWN: Final = frozenset({DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED})


class SecurityProtocol(IntEnum):
    """The int16 that registrations carry for each listener."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Listener(NamedTuple):
    """One advertised listener."""

    host: str
    port: int
    security_protocol: int

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)


class ListenerMessage(Protocol):
    """A listener, as requests and records carry it."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureMessage(Protocol):
    """A feature that a node supports, as requests and records carry it."""

    name: str
    min_supported_version: int
    max_supported_version: int


MessageT = TypeVar("MessageT")


def read_listeners(messages: Iterable[ListenerMessage]) -> dict[str, Listener]:
    return {each.name: Listener(each.host, each.port, each.security_protocol) for each in messages}


def write_listeners(listeners: Mapping[str, Listener], message_type: Callable[..., MessageT]) -> list[MessageT]:
    return [
        message_type(name=name, host=host, port=port, security_protocol=protocol)
        for name, (host, port, protocol) in listeners.items()
    ]


def read_features(messages: Iterable[FeatureMessage]) -> dict[str, FeatureRange]:
    return {each.name: FeatureRange(each.min_supported_version, each.max_supported_version) for each in messages}


def write_features(features: Mapping[str, FeatureRange], message_type: Callable[..., MessageT]) -> list[MessageT]:
    return [
        message_type(name=name, min_supported_version=first, max_supported_version=last)
        for name, (first, last) in features.items()
    ]


class BrokerRegistration(NamedTuple):
    """One broker: its registration, with the controller's later changes.

    ``epoch`` is the offset of its registration record. ``listeners`` by name, ``features`` by name. ``directories``
    are the ids of its online log directories, sorted.
    """

    broker_id: NodeId
    epoch: Offset
    incarnation_id: Uuid
    listeners: Mapping[str, Listener]
    features: Mapping[str, FeatureRange]
    rack: str | None
    is_fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()

    @property
    def is_active(self) -> bool:
        """Neither fenced nor shutting down: it may lead partitions."""
        return not self.is_fenced and not self.in_controlled_shutdown

    def has_online_directory(self, directory: Uuid) -> bool:
        """Whether ``directory`` is online, as far as it is known; before KIP-858 no broker reports its directories."""
        if directory == DIRECTORY_LOST:
            return False
        return directory in _NOT_YET_KNOWN or not self.directories or directory in self.directories

    @property
    def is_cordoned(self) -> bool:
        """Whether no log directory takes new replicas (KIP-1066)."""
        return bool(self.directories) and set(self.directories) <= set(self.cordoned_directories)

    @property
    def default_directory(self) -> Uuid:
        """Directory of a new replica, as far as the controller knows: certain only when there is one directory."""
        if not self.directories:
            return DIRECTORY_MIGRATING
        return self.directories[0] if len(self.directories) == 1 else DIRECTORY_UNASSIGNED

    def to_record(self, versions: RecordVersions) -> MetadataRecord:
        return MetadataRecord(
            RegisterBrokerRecord(
                broker_id=self.broker_id,
                incarnation_id=self.incarnation_id,
                broker_epoch=self.epoch,
                end_points=write_listeners(self.listeners, BrokerEndpoint),
                features=write_features(self.features, BrokerFeature),
                rack=self.rack,
                fenced=self.is_fenced,
                in_controlled_shutdown=self.in_controlled_shutdown,
                log_dirs=list(self.directories) if versions.supports_directories else [],
                cordoned_log_dirs=list(self.cordoned_directories) or None,
            ),
            versions.register_broker,
        )

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> "BrokerRegistration":
        return cls(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=read_listeners(record.end_points),
            features=read_features(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(sorted(record.log_dirs)),
            cordoned_directories=tuple(sorted(record.cordoned_log_dirs or ())),
        )


class ControllerRegistration(NamedTuple):
    """One controller of the quorum, as it registered (KIP-919)."""

    controller_id: NodeId
    incarnation_id: Uuid
    listeners: Mapping[str, Listener]
    features: Mapping[str, FeatureRange]

    def to_record(self) -> MetadataRecord:
        return MetadataRecord(
            RegisterControllerRecord(
                controller_id=self.controller_id,
                incarnation_id=self.incarnation_id,
                end_points=write_listeners(self.listeners, ControllerEndpoint),
                features=write_features(self.features, ControllerFeature),
            ),
            0,
        )

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> "ControllerRegistration":
        return cls(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            listeners=read_listeners(record.end_points),
            features=read_features(record.features),
        )


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Registered nodes by id."""

    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)

    def is_active(self, broker_id: NodeId) -> bool:
        """Whether the broker is registered, not fenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def records(self, versions: RecordVersions) -> Iterator[MetadataRecord]:
        for _, broker in sorted(self.brokers.items()):
            yield broker.to_record(versions)
        for _, controller in sorted(self.controllers.items()):
            yield controller.to_record()


class ClusterDelta:
    """Changes on the way from one `ClusterImage` to the next; a value of None is a removal."""

    __slots__ = ("changed_brokers", "changed_controllers", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[NodeId, BrokerRegistration | None] = {}
        self.changed_controllers: dict[NodeId, ControllerRegistration | None] = {}

    def broker(self, broker_id: NodeId) -> BrokerRegistration | None:
        """Return the broker with the changes so far."""
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch, "UnregisterBrokerRecord")
        self.changed_brokers[record.broker_id] = None

    def replay_fence_broker(self, record: FenceBrokerRecord) -> None:
        broker = self._registered(record.id, record.epoch, "FenceBrokerRecord")
        self.changed_brokers[record.id] = broker._replace(is_fenced=True)

    def replay_unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        broker = self._registered(record.id, record.epoch, "UnfenceBrokerRecord")
        self.changed_brokers[record.id] = broker._replace(is_fenced=False)

    def replay_broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, "BrokerRegistrationChangeRecord")
        changes: dict[str, object] = {}
        if record.fenced:
            changes["is_fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(sorted(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = tuple(sorted(record.cordoned_log_dirs))
        self.changed_brokers[record.broker_id] = broker._replace(**changes)  # type: ignore[arg-type]

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def finish_snapshot(self) -> None:
        """Remove nodes that the snapshot does not name."""
        for broker_id in self.image.brokers:
            self.changed_brokers.setdefault(broker_id, None)
        for controller_id in self.image.controllers:
            self.changed_controllers.setdefault(controller_id, None)

    def apply(self) -> ClusterImage:
        if not self.changed_brokers and not self.changed_controllers:
            return self.image
        brokers = {**self.image.brokers, **self.changed_brokers}
        controllers = {**self.image.controllers, **self.changed_controllers}
        return ClusterImage(
            {broker_id: broker for broker_id, broker in brokers.items() if broker is not None},
            {node_id: controller for node_id, controller in controllers.items() if controller is not None},
        )

    def _registered(self, broker_id: NodeId, epoch: Offset, what: str) -> BrokerRegistration:
        broker = self.broker(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "is not registered" if broker is None else f"has epoch {broker.epoch}"
            raise ValueError(f"{what} names broker {broker_id} with epoch {epoch}, which {known}")
        return broker
