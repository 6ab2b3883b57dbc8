"""`ConfigControl`: changes of dynamic configuration, and the effective values that the controller itself uses.

Source: ConfigurationControlManager of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.config.alter import (
    Alteration,
    AlterOperation,
    apply_alterations,
    validate_broker_config,
    validate_client_metrics_config,
    validate_group_config,
    validate_topic_config,
)
from ottla.config.key import ConfigValue, InvalidConfigError, parse_value
from ottla.config.layers import BrokerLayers, topic_values
from ottla.config.resource_type import ConfigResourceType
from ottla.config.topic_keys import TOPIC_KEYS
from ottla.controller.partition_index import NOWHERE
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.metadata.configs import EVERY_BROKER, ConfigResource, ConfigsImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER
from ottla.quoting import cut_name
from ottla.types import NodeId
from ottla.wire.codec.primitives import STRING_BYTES_MAX
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.metadata_log import ClearElrRecord, ConfigRecord, PartitionChangeRecord

ACKS_FSYNC: Final = "ottla.acks.fsync"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"


class ConfigControl:
    """``static`` is this node's server.properties: the layer below the dynamic ones."""

    def __init__(self, state: ControllerState, *, node_id: NodeId, static: Mapping[str, str]) -> None:
        self._state = state
        self._node_id = node_id
        self._static = static
        self._inherited_from: ConfigsImage | None = None
        self._inherited: Mapping[str, ConfigValue] = {}
        self._valid_under: ConfigsImage | None = None
        self._valid_topics: set[tuple[tuple[str, str | None], ...]] = set()

    # --- effective values

    def layers(self) -> BrokerLayers:
        """Return this node's layers of the configuration of topics."""
        configs = self._state.image.configs
        own = configs.of(ConfigResource(ConfigResourceType.BROKER, str(self._node_id)))
        return BrokerLayers(static=self._static, dynamic_default=configs.of(EVERY_BROKER), dynamic_broker=own)

    def min_insync_replicas(self, topic: str) -> int:
        value = self._effective(topic, MIN_INSYNC_REPLICAS)
        assert isinstance(value, int)
        return value

    def syncs_before_acknowledging(self, topic: str) -> bool:
        """Return ottla.acks.fsync."""
        return bool(self._effective(topic, ACKS_FSYNC))

    def unclean_election_enabled(self, topic: str) -> bool:
        return bool(self._effective(topic, UNCLEAN_LEADER_ELECTION_ENABLE))

    def _effective(self, topic: str, key: str) -> ConfigValue:
        configs = self._state.image.configs
        if configs is not self._inherited_from:
            # Inherited values are read once per partition of a fenced broker: cache them while they cannot change.
            self._inherited_from, self._inherited = configs, topic_values(self.layers(), {})
        text = configs.of_topic(topic).get(key)
        if text is not None:
            try:
                return parse_value(TOPIC_KEYS[key], text)
            except InvalidConfigError:
                pass
        return self._inherited[key]

    # --- decisions

    def alter_incrementally(
        self, request: incremental.IncrementalAlterConfigsRequest
    ) -> ControllerResult[incremental.IncrementalAlterConfigsResponse]:
        """Set, delete, append to and subtract from single values."""
        records: list[MetadataRecord] = []
        responses = []
        seen = _repeated([(each.resource_type, each.resource_name) for each in request.resources])
        for resource in request.resources:
            response = incremental.AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
            )
            responses.append(response)
            try:
                _reject_repeated(seen, resource.resource_type, resource.resource_name)
                alterations = [
                    Alteration(config.name, AlterOperation(config.config_operation), config.value)
                    for config in resource.configs
                ]
                records += self._alter(resource.resource_type, resource.resource_name, alterations)
            except KafkaError as error:
                response.error_code, response.error_message = error.code, error.message
            except ValueError as error:
                response.error_code, response.error_message = ErrorCode.INVALID_REQUEST, str(error)
        return ControllerResult(
            incremental.IncrementalAlterConfigsResponse(responses=responses), [] if request.validate_only else records
        )

    def alter_fully(self, request: full.AlterConfigsRequest) -> ControllerResult[full.AlterConfigsResponse]:
        """Replace all settings of a resource (the older API)."""
        records: list[MetadataRecord] = []
        responses = []
        seen = _repeated([(each.resource_type, each.resource_name) for each in request.resources])
        for resource in request.resources:
            response = full.AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
            )
            responses.append(response)
            try:
                _reject_repeated(seen, resource.resource_type, resource.resource_name)
                given = {config.name: config.value for config in resource.configs}
                current = self._state.image.configs.of(_resource(resource.resource_type, resource.resource_name))
                alterations = [Alteration(name, AlterOperation.SET, value) for name, value in given.items()]
                alterations += [Alteration(name, AlterOperation.DELETE, None) for name in current if name not in given]
                records += self._alter(resource.resource_type, resource.resource_name, alterations)
            except KafkaError as error:
                response.error_code, response.error_message = error.code, error.message
        return ControllerResult(
            full.AlterConfigsResponse(responses=responses), [] if request.validate_only else records
        )

    def topic_config_records(self, topic: str, configs: Mapping[str, str | None]) -> list[MetadataRecord]:
        """Return the records of a new topic's settings.

        Raises:
            KafkaError: INVALID_CONFIG, INVALID_REQUEST.
        """
        image, key = self._state.image.configs, tuple(sorted(configs.items(), key=lambda item: item[0]))
        if image is not self._valid_under:
            self._valid_under, self._valid_topics = image, set()
        if key not in self._valid_topics:
            # Thousands of topics may have equal settings, and each is validated against everything that it inherits.
            validate_topic_config(self.layers(), configs)
            self._valid_topics.add(key)
        return [
            _record(ConfigResource(ConfigResourceType.TOPIC, topic), name, value) for name, value in configs.items()
        ]

    def _alter(self, resource_type: int, resource_name: str, alterations: list[Alteration]) -> list[MetadataRecord]:
        resource = _resource(resource_type, resource_name)
        self._check_exists(resource)
        current = self._state.image.configs.of(resource)
        nulls = [
            each.name for each in alterations if each.operation is not AlterOperation.DELETE and each.value is None
        ]
        if nulls:
            raise InvalidRequestError(f"Null value not supported for : {','.join(nulls)}")
        if len({each.name for each in alterations}) < len(alterations):
            raise InvalidRequestError("Error due to duplicate config keys")
        after = apply_alterations(resource.type, current, alterations, self.layers())
        _check_sizes(after)
        self._validate(resource, current, after)
        changed = [
            _record(resource, each.name, after.get(each.name))
            for each in alterations
            if after.get(each.name) != current.get(each.name)
        ]
        return changed + self._clear_elr(resource, current, after)

    def _clear_elr(
        self, resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
    ) -> list[MetadataRecord]:
        """Clear eligible leader replicas whose min.insync.replicas changes: they were computed with the old one."""
        if not self._state.image.features.is_elr_enabled:
            return []
        if before.get(MIN_INSYNC_REPLICAS) == after.get(MIN_INSYNC_REPLICAS):
            return []
        if resource.type is ConfigResourceType.TOPIC:
            return [MetadataRecord(ClearElrRecord(topic_name=resource.name), 0), *self._keep_elr(resource.name)]
        if resource == EVERY_BROKER:
            return [MetadataRecord(ClearElrRecord(topic_name=""), 0), *self._keep_elr(None)]
        return []

    def _keep_elr(self, topic_name: str | None) -> list[MetadataRecord]:
        """Keep the eligible replicas of partitions without a leader; nothing was written there since.

        Kafka clears them: with an empty in-sync set, only an unclean election would then give the partition a leader.
        """
        records = []
        version = self._state.image.features.record_versions.partition_change
        for topic, partition_id, partition in self._state.at(self._state.index.led.get(NO_LEADER, NOWHERE)):
            if (partition.elr or partition.last_known_elr) and topic_name in (None, topic.name):
                record = PartitionChangeRecord(
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    eligible_leader_replicas=list(partition.elr) or None,
                    last_known_elr=list(partition.last_known_elr) or None,
                )
                records.append(MetadataRecord(record, version))
        return records

    def _check_exists(self, resource: ConfigResource) -> None:
        image = self._state.image
        if not resource.name and resource.type is not ConfigResourceType.BROKER:
            raise InvalidRequestError(_NO_DEFAULT[resource.type])
        if resource.type is ConfigResourceType.TOPIC and resource.name not in image.topics.by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{cut_name(resource.name)}' does not exist."
            )
        if resource.type is ConfigResourceType.BROKER and resource.name:
            broker_id = _broker_id(resource.name)
            if broker_id not in image.cluster.brokers and broker_id not in image.cluster.controllers:
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {broker_id} found.")

    def _validate(self, resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if resource.type is ConfigResourceType.TOPIC:
            validate_topic_config(self.layers(), after)
        elif resource.type is ConfigResourceType.BROKER:
            if self._state.image.features.is_elr_enabled:
                _check_min_isr_under_elr(resource, before, after)
            validate_broker_config(after, per_broker=bool(resource.name))
        elif resource.type is ConfigResourceType.GROUP:
            validate_group_config(after, self.layers())
        else:
            validate_client_metrics_config(after)


_NO_DEFAULT: Final = {
    ConfigResourceType.TOPIC: "Default topic resources are not allowed.",
    ConfigResourceType.GROUP: "Default group resources are not allowed.",
    ConfigResourceType.CLIENT_METRICS: "Subscription name can't be empty",
}


def _check_min_isr_under_elr(resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Reject changes that would invalidate eligible leader replicas: all brokers need one min.insync.replicas."""
    if resource.name and MIN_INSYNC_REPLICAS in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if not resource.name and MIN_INSYNC_REPLICAS in before and MIN_INSYNC_REPLICAS not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _check_sizes(values: Mapping[str, str]) -> None:
    """Reject a value that no record can hold: appended values are small, but the list grows.

    Raises:
        InvalidConfigError: with the message of Kafka, which counts UTF-16 units and fails with fewer characters than
            bytes.
    """
    if any(len(value.encode()) > STRING_BYTES_MAX for value in values.values()):
        raise InvalidConfigError(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{STRING_BYTES_MAX} bytes."
        )


def _broker_id(name: str) -> NodeId:
    try:
        return int(name)
    except ValueError:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {cut_name(name)}") from None


def _resource(resource_type: int, name: str) -> ConfigResource:
    supported = (
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
        ConfigResourceType.CLIENT_METRICS,
        ConfigResourceType.GROUP,
    )
    if resource_type not in supported:
        raise InvalidRequestError(f"Unknown resource type {resource_type}")
    return ConfigResource(ConfigResourceType(resource_type), name)


def _record(resource: ConfigResource, name: str, value: str | None) -> MetadataRecord:
    return MetadataRecord(
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value), 0
    )


def _repeated(resources: list[tuple[int, str]]) -> frozenset[tuple[int, str]]:
    return frozenset(resource for resource, count in Counter(resources).items() if count > 1)


def _reject_repeated(repeated: frozenset[tuple[int, str]], resource_type: int, name: str) -> None:
    if (resource_type, name) in repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
