"""`TopicControl`: topics are created and deleted, and get more partitions.

Source: ReplicationControlManager of Apache Kafka 4.3, whose error codes and texts these are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.config.layers import describe_topic
from ottla.controller.assignments import check_assignment, invalid_assignment
from ottla.controller.configs import ConfigControl
from ottla.controller.placement import UsableBroker, place
from ottla.controller.result import ControllerResult, check_record_count
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.metadata.configs import ConfigsImage
from ottla.metadata.metadata_version import RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_name import colliding_form, invalid_topic_name_reason, may_collide
from ottla.metadata.topics import PartitionRegistration, TopicImage, TopicsImage
from ottla.ports import Random
from ottla.security.quotas.mutations import Mutations
from ottla.types import CLUSTER_METADATA_TOPIC, ZERO_UUID, NodeId, Uuid
from ottla.wire.messages import create_partitions as partitions_api
from ottla.wire.messages import create_topics as create_api
from ottla.wire.messages import delete_topics as delete_api
from ottla.wire.messages.metadata_log import RemoveTopicRecord, TopicRecord

PARTITIONS_PER_REQUEST_MAX: Final = 10_000


class TopicControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(
        self,
        state: ControllerState,
        configs: ConfigControl,
        *,
        random: Random,
        default_partition_count: int,
        default_replication_factor: int,
    ) -> None:
        self._state = state
        self._configs = configs
        self._random = random
        self._default_partition_count = default_partition_count
        self._default_replication_factor = default_replication_factor
        self._forms_of: TopicsImage | None = None
        self._forms: dict[str, str] = {}
        self._described_from: ConfigsImage | None = None
        self._described_topics: dict[tuple[tuple[str, str], ...], list[create_api.CreatableTopicConfigs]] = {}

    # --- create

    def create_topics(
        self, request: create_api.CreateTopicsRequest, mutations: Mutations | None = None
    ) -> ControllerResult[create_api.CreateTopicsResponse]:
        """Create each valid topic; the others get an error of their own.

        Raises:
            KafkaError: POLICY_VIOLATION when the whole is too large for one batch of records.
        """
        counts = Counter(topic.name for topic in request.topics)
        wanted = {topic.name: topic for topic in request.topics}
        self._check_partition_total(request)
        records: list[MetadataRecord] = []
        results = []
        for name, count in counts.items():
            topic = wanted[name]
            try:
                if count > 1:
                    raise InvalidRequestError("Duplicate topic name.")
                topic_records, result = self._create_topic(topic, mutations)
            except KafkaError as error:
                result = create_api.CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)
            else:
                records += topic_records
            results.append(result)
        check_record_count(records)
        response = create_api.CreateTopicsResponse(topics=results)
        return ControllerResult(response, [] if request.validate_only else records)

    def _check_partition_total(self, request: create_api.CreateTopicsRequest) -> None:
        total = 0
        for topic in request.topics:
            if topic.assignments:
                total += len(topic.assignments)
            else:
                total += self._default_partition_count if topic.num_partitions == -1 else max(topic.num_partitions, 0)
        if total > PARTITIONS_PER_REQUEST_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")

    def _create_topic(
        self, topic: create_api.CreatableTopic, mutations: Mutations | None
    ) -> tuple[list[MetadataRecord], create_api.CreatableTopicResult]:
        self._check_name(topic.name)
        configs = {config.name: config.value for config in topic.configs}
        config_records = self._configs.topic_config_records(topic.name, configs)
        replicas = self._assignments(topic) if topic.assignments else self._placements(topic)
        _count(mutations, len(replicas))
        topic_id = self._random.uuid()
        versions = self._state.image.features.record_versions
        records = [MetadataRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0), *config_records]
        records += self._partition_records(topic_id, 0, replicas, versions)
        result = create_api.CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=self._described(configs),
        )
        return records, result

    def _described(self, configs: Mapping[str, str | None]) -> list[create_api.CreatableTopicConfigs]:
        """Return every setting of a topic; topics with equal settings share the list."""
        if self._described_from is not self._state.image.configs:
            self._described_from, self._described_topics = self._state.image.configs, {}
        key = tuple(sorted((name, value) for name, value in configs.items() if value is not None))
        described = self._described_topics.get(key)
        if described is None:
            described = self._described_topics[key] = [
                create_api.CreatableTopicConfigs(
                    name=each.name,
                    value=each.value,
                    read_only=each.read_only,
                    config_source=each.source,
                    is_sensitive=each.is_sensitive,
                )
                for each in describe_topic(self._configs.layers(), dict(key))
            ]
        return described

    def _check_name(self, name: str) -> None:
        reason = invalid_topic_name_reason(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name == CLUSTER_METADATA_TOPIC:
            raise InvalidRequestError(f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.")
        existing = self._state.image.topics.by_name
        if name in existing:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if may_collide(name):
            other = self._by_form().get(colliding_form(name))
            if other is not None:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
                )

    def _by_form(self) -> dict[str, str]:
        """Return topics by their colliding form; built once for an image: a request may name thousands."""
        topics = self._state.image.topics
        if self._forms_of is not topics:
            names = sorted(filter(may_collide, topics.by_name), reverse=True)
            self._forms_of, self._forms = topics, {colliding_form(name): name for name in names}
        return self._forms

    def _placements(self, topic: create_api.CreatableTopic) -> list[list[NodeId]]:
        """Place the replicas by the controller's own choice."""
        partition_count, replication_factor = topic.num_partitions, topic.replication_factor
        if replication_factor < -1 or replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partition_count < -1 or partition_count == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        return self._place(
            self._default_partition_count if partition_count == -1 else partition_count,
            self._default_replication_factor if replication_factor == -1 else replication_factor,
        )

    def _place(self, partition_count: int, replication_factor: int) -> list[list[NodeId]]:
        usable = [
            UsableBroker(broker.broker_id, broker.rack, broker.is_fenced)
            for broker in self._state.image.cluster.brokers.values()
            if not broker.in_controlled_shutdown and not broker.is_cordoned
        ]
        try:
            return place(
                brokers=usable,
                partition_count=partition_count,
                replication_factor=replication_factor,
                random=self._random,
            )
        except KafkaError as error:
            raise KafkaError(
                error.code, f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
            ) from None

    def _assignments(self, topic: create_api.CreatableTopic) -> list[list[NodeId]]:
        """Use the brokers that the request names."""
        if topic.replication_factor != -1:
            raise InvalidRequestError(
                "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.num_partitions != -1:
            raise InvalidRequestError(
                "A manual partition assignment was specified, but numPartitions was not set to -1."
            )
        replicas: dict[int, list[NodeId]] = {}
        replication_factor = None
        for assignment in topic.assignments:
            partition = assignment.partition_index
            if partition in replicas:
                raise invalid_assignment(f"Found multiple manual partition assignments for partition {partition}")
            check_assignment(self._state.image.cluster, assignment.broker_ids, replication_factor)
            replication_factor = len(assignment.broker_ids)
            replicas[partition] = assignment.broker_ids
        if sorted(replicas) != list(range(len(replicas))):
            raise invalid_assignment("partitions should be a consecutive 0-based integer sequence")
        for partition in range(len(replicas)):
            self._check_online(partition, replicas[partition])
        return [replicas[partition] for partition in range(len(replicas))]

    def _check_online(self, partition: int, broker_ids: Sequence[NodeId]) -> None:
        if not any(self._state.image.cluster.is_active(broker_id) for broker_id in broker_ids):
            raise invalid_assignment(
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
                "controlled shutdown."
            )

    def _partition_records(
        self, topic_id: Uuid, first_partition: int, replicas: list[list[NodeId]], versions: RecordVersions
    ) -> list[MetadataRecord]:
        cluster = self._state.image.cluster
        directories = {broker_id: broker.default_directory for broker_id, broker in cluster.brokers.items()}
        active = {broker_id for broker_id in cluster.brokers if cluster.is_active(broker_id)}
        records = []
        for partition, broker_ids in enumerate(replicas, first_partition):
            isr = tuple(broker_id for broker_id in broker_ids if broker_id in active)
            registration = PartitionRegistration(
                replicas=tuple(broker_ids),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(directories[broker_id] for broker_id in broker_ids),
            )
            records.append(registration.to_record(topic_id, partition, versions))
        return records

    # --- add partitions

    def create_partitions(
        self, request: partitions_api.CreatePartitionsRequest, mutations: Mutations | None = None
    ) -> ControllerResult[partitions_api.CreatePartitionsResponse]:
        """Add partitions to each topic for which the request is valid.

        Raises:
            KafkaError: POLICY_VIOLATION when the whole is too large for one batch of records.
        """
        counts = Counter(topic.name for topic in request.topics)
        wanted = {topic.name: topic for topic in request.topics}
        records: list[MetadataRecord] = []
        results = []
        for name, count in counts.items():
            topic = wanted[name]
            result = partitions_api.CreatePartitionsTopicResult(name=name)
            results.append(result)
            try:
                if count > 1:
                    raise InvalidRequestError("Duplicate topic name.")
                records += self._add_partitions(topic, mutations)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
        check_record_count(records)
        response = partitions_api.CreatePartitionsResponse(results=results)
        return ControllerResult(response, [] if request.validate_only else records)

    def _add_partitions(
        self, wanted: partitions_api.CreatePartitionsTopic, mutations: Mutations | None
    ) -> list[MetadataRecord]:
        topic = self._state.image.topics.by_name.get(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        present = len(topic.partitions)
        additional = wanted.count - present
        _check_increase(wanted, present)
        _count(mutations, additional)
        replication_factor = len(topic.partitions[0].replicas)
        if wanted.assignments is None:
            if additional > PARTITIONS_PER_REQUEST_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            replicas = self._place(additional, replication_factor)
        else:
            replicas = []
            for partition, assignment in enumerate(wanted.assignments, present):
                check_assignment(self._state.image.cluster, assignment.broker_ids, replication_factor)
                self._check_online(partition, assignment.broker_ids)
                replicas.append(assignment.broker_ids)
        versions = self._state.image.features.record_versions
        return self._partition_records(topic.topic_id, present, replicas, versions)

    # --- delete

    def delete_topics(
        self, request: delete_api.DeleteTopicsRequest, mutations: Mutations | None = None
    ) -> ControllerResult[delete_api.DeleteTopicsResponse]:
        """Delete each existing topic, by name or by id.

        Raises:
            KafkaError: POLICY_VIOLATION when the whole is too large for one batch of records.
        """
        wanted = [delete_api.DeleteTopicState(name=name) for name in request.topic_names] + request.topics
        resolved = [self._resolve(state) for state in wanted]
        counts = Counter(topic.topic_id for topic in resolved if isinstance(topic, TopicImage))
        records: list[MetadataRecord] = []
        results: list[delete_api.DeletableTopicResult] = []
        reported: set[Uuid] = set()
        for state, topic in zip(wanted, resolved, strict=True):
            if isinstance(topic, KafkaError):
                results.append(
                    delete_api.DeletableTopicResult(
                        name=state.name, topic_id=state.topic_id, error_code=topic.code, error_message=topic.message
                    )
                )
            elif topic.topic_id not in reported:
                reported.add(topic.topic_id)
                if counts[topic.topic_id] > 1:
                    results.append(
                        delete_api.DeletableTopicResult(
                            name=topic.name,
                            error_code=ErrorCode.INVALID_REQUEST,
                            error_message="Duplicate topic name.",
                        )
                    )
                else:
                    result = delete_api.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
                    results.append(result)
                    try:
                        _count(mutations, len(topic.partitions))
                    except KafkaError as error:
                        result.error_code, result.error_message = error.code, error.message
                        continue
                    records.append(MetadataRecord(RemoveTopicRecord(topic_id=topic.topic_id), 0))
        check_record_count(records)
        return ControllerResult(delete_api.DeleteTopicsResponse(responses=results), records)

    def _resolve(self, state: delete_api.DeleteTopicState) -> TopicImage | KafkaError:
        topics = self._state.image.topics
        if state.name is None and state.topic_id == ZERO_UUID:
            return InvalidRequestError("Neither topic name nor id were specified.")
        if state.name is not None and state.topic_id != ZERO_UUID:
            return InvalidRequestError("You may not specify both topic name and topic id.")
        if state.name is not None:
            return topics.by_name.get(state.name) or KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return topics.by_id.get(state.topic_id) or KafkaError(
            ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        )


def _count(mutations: Mutations | None, partition_count: int) -> None:
    """Charge a change of so many partitions to the client's quota.

    Raises:
        KafkaError: THROTTLING_QUOTA_EXCEEDED.
    """
    if mutations is not None:
        mutations.record(partition_count)


def _check_increase(wanted: partitions_api.CreatePartitionsTopic, present: int) -> None:
    additional = wanted.count - present
    if additional == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if additional < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise invalid_assignment(
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified."
        )
