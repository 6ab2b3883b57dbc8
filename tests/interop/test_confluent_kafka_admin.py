"""confluent-kafka (librdkafka): the admin API, each call with its result and with the error that Kafka gives."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

TIMEOUT_S = 30


def error_of(future: Any) -> tuple[int, str]:
    """Return code and message of the error of a call."""
    with pytest.raises(KafkaException) as rejected:
        future.result(timeout=TIMEOUT_S)
    error = rejected.value.args[0]
    return error.code(), error.str()


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("admin")


class TestTopics:
    def test_topics_are_created_described_and_deleted(
        self, admin: AdminClient, name: str, eventually: Callable[..., Any]
    ) -> None:
        admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])[name].result(timeout=TIMEOUT_S)
        eventually(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics)
        assert sorted(admin.list_topics(timeout=TIMEOUT_S).topics[name].partitions) == [0, 1, 2]

        admin.delete_topics([name])[name].result(timeout=TIMEOUT_S)

        eventually(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics)

    def test_partitions_and_replication_factor_default_to_the_brokers(
        self, admin: AdminClient, name: str, eventually: Callable[..., Any]
    ) -> None:
        admin.create_topics([NewTopic(name, num_partitions=-1, replication_factor=-1)])[name].result(timeout=TIMEOUT_S)

        eventually(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics)
        assert len(admin.list_topics(timeout=TIMEOUT_S).topics[name].partitions) == 1

    def test_validate_only_creates_nothing(self, admin: AdminClient, name: str) -> None:
        admin.create_topics([NewTopic(name, num_partitions=1)], validate_only=True)[name].result(timeout=TIMEOUT_S)

        assert name not in admin.list_topics(timeout=TIMEOUT_S).topics

    @pytest.mark.parametrize(
        ("settings", "code"),
        [
            pytest.param({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS, id="no-partitions"),
            pytest.param(
                {"num_partitions": 1, "replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR, id="two-replicas"
            ),
            pytest.param(
                {"num_partitions": 1, "replication_factor": 0}, KafkaError.INVALID_REPLICATION_FACTOR, id="no-replicas"
            ),
            pytest.param(
                {"num_partitions": 1, "config": {"no.such": "1"}}, KafkaError.INVALID_CONFIG, id="unknown-config"
            ),
            pytest.param(
                {"num_partitions": 1, "config": {"segment.bytes": "1"}}, KafkaError.INVALID_CONFIG, id="config-bound"
            ),
            pytest.param(
                {"num_partitions": 1, "replica_assignment": [[4711]]},
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                id="no-such-broker",
            ),
        ],
    )
    def test_impossible_topic_is_rejected(
        self, admin: AdminClient, name: str, settings: dict[str, Any], code: int
    ) -> None:
        future = admin.create_topics([NewTopic(name, **settings)])[name]

        assert error_of(future)[0] == code
        assert name not in admin.list_topics(timeout=TIMEOUT_S).topics

    def test_one_bad_topic_does_not_stop_the_others(self, admin: AdminClient, name: str) -> None:
        futures = admin.create_topics([NewTopic("bad name", num_partitions=1), NewTopic(name, num_partitions=1)])

        assert error_of(futures["bad name"])[0] == KafkaError.TOPIC_EXCEPTION
        futures[name].result(timeout=TIMEOUT_S)

    def test_deleting_a_missing_topic_is_an_error(self, admin: AdminClient, name: str) -> None:
        assert error_of(admin.delete_topics([name])[name])[0] == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_recreated_topic_is_empty(
        self, admin: AdminClient, name: str, produce: Callable[..., Any], consume: Callable[..., Any]
    ) -> None:
        produce(name, [b"old"])
        admin.delete_topics([name])[name].result(timeout=TIMEOUT_S)
        admin.create_topics([NewTopic(name, num_partitions=1)])[name].result(timeout=TIMEOUT_S)

        produce(name, [b"new"])

        (record,) = consume(name, 1)
        assert (record.offset(), record.value()) == (0, b"new")


class TestPartitions:
    def test_records_stay_where_they_are_when_partitions_are_added(
        self,
        admin: AdminClient,
        new_topic: Callable[..., str],
        produce: Callable[..., Any],
        consume: Callable[..., Any],
    ) -> None:
        topic = new_topic(partitions=1)
        produce(topic, [b"before"])

        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(timeout=TIMEOUT_S)

        produce(topic, [b"after"], partition=2)
        assert {(record.partition(), record.value()) for record in consume(topic, 2)} == {(0, b"before"), (2, b"after")}

    @pytest.mark.parametrize("count", [1, 2], ids=["fewer", "as-many"])
    def test_same_or_lower_partition_count_is_rejected(
        self, admin: AdminClient, new_topic: Callable[..., str], count: int
    ) -> None:
        topic = new_topic(partitions=2)

        future = admin.create_partitions([NewPartitions(topic, count)])[topic]

        assert error_of(future)[0] == KafkaError.INVALID_PARTITIONS


class TestConfigs:
    def test_config_is_set_and_reset(self, admin: AdminClient, new_topic: Callable[..., str]) -> None:
        topic = new_topic()
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def alter(operation: AlterConfigOpType, value: str | None) -> None:
            entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
            change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            admin.incremental_alter_configs([change])[change].result(timeout=TIMEOUT_S)

        def retention() -> tuple[str, ConfigSource]:
            entry = admin.describe_configs([resource])[resource].result(timeout=TIMEOUT_S)["retention.ms"]
            return entry.value, ConfigSource(entry.source)

        alter(AlterConfigOpType.SET, "1000")
        assert retention() == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
        alter(AlterConfigOpType.DELETE, None)
        assert retention() == ("604800000", ConfigSource.DEFAULT_CONFIG)

    def test_list_configs_are_appended_to_and_subtracted_from(
        self, admin: AdminClient, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic()
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def alter(operation: AlterConfigOpType) -> str:
            entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=operation)
            change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            admin.incremental_alter_configs([change])[change].result(timeout=TIMEOUT_S)
            return str(admin.describe_configs([resource])[resource].result(timeout=TIMEOUT_S)["cleanup.policy"].value)

        assert alter(AlterConfigOpType.APPEND) == "delete,compact"
        assert alter(AlterConfigOpType.SUBTRACT) == "delete"

    def test_wrong_value_is_rejected(self, admin: AdminClient, new_topic: Callable[..., str]) -> None:
        entry = ConfigEntry("retention.ms", "banana", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, new_topic(), incremental_configs=[entry])

        code, text = error_of(admin.incremental_alter_configs([change])[change])

        assert code == KafkaError.INVALID_CONFIG
        assert text == "Invalid value banana for configuration retention.ms: Not a number of type LONG"

    def test_nodes_own_configs_are_described(self, admin: AdminClient) -> None:
        node_id = next(iter(admin.list_topics(timeout=TIMEOUT_S).brokers))
        resource = ConfigResource(ResourceType.BROKER, str(node_id))

        configs = admin.describe_configs([resource])[resource].result(timeout=TIMEOUT_S)

        assert configs["node.id"].value == str(node_id)
        assert configs["node.id"].is_read_only
        assert configs["offsets.topic.num.partitions"].value == "50"


class TestCluster:
    def test_cluster_names_its_nodes_and_controller(self, admin: AdminClient, broker: Any) -> None:
        cluster = admin.describe_cluster().result(timeout=TIMEOUT_S)

        (node,) = cluster.nodes
        assert (node.host, node.port) == broker.address
        assert cluster.controller.id == node.id
        assert len(cluster.cluster_id) == 22


class TestOffsets:
    @pytest.mark.parametrize(
        ("spec", "offset"),
        [
            pytest.param(OffsetSpec.earliest(), 0, id="earliest"),
            pytest.param(OffsetSpec.latest(), 3, id="latest"),
            pytest.param(OffsetSpec.max_timestamp(), 1, id="max-timestamp"),
            pytest.param(OffsetSpec.for_timestamp(1_700_000_000_001), 1, id="timestamp"),
        ],
    )
    def test_offsets_are_listed_by_spec(
        self, admin: AdminClient, new_topic: Callable[..., str], produce: Callable[..., Any], spec: Any, offset: int
    ) -> None:
        topic = new_topic(retention_ms=-1)
        for timestamp_ms in (1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000):
            produce(topic, [b"v"], timestamp=timestamp_ms)
        place = TopicPartition(topic, 0)

        assert admin.list_offsets({place: spec})[place].result(timeout=TIMEOUT_S).offset == offset

    def test_records_are_deleted_up_to_an_offset(
        self, admin: AdminClient, new_topic: Callable[..., str], produce: Callable[..., Any]
    ) -> None:
        topic = new_topic()
        produce(topic, [b"v"] * 5)
        place = TopicPartition(topic, 0, 3)

        assert admin.delete_records([place])[place].result(timeout=TIMEOUT_S).low_watermark == 3


class TestGroups:
    @pytest.fixture
    def group(
        self, new_topic: Callable[..., str], unique: Callable[[str], str], commit: Callable[..., None]
    ) -> tuple[str, TopicPartition]:
        """A group without members that has committed offset 5 of a partition."""
        name, place = unique("group"), TopicPartition(new_topic(), 0, 5)
        commit(name, [place])
        return name, place

    def test_new_group_is_listed_and_described(self, admin: AdminClient, group: tuple[str, TopicPartition]) -> None:
        name, _ = group

        listed = admin.list_consumer_groups().result(timeout=TIMEOUT_S)
        described = admin.describe_consumer_groups([name])[name].result(timeout=TIMEOUT_S)

        assert listed.errors == []
        assert [row.state for row in listed.valid if row.group_id == name] == [ConsumerGroupState.EMPTY]
        assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])

    def test_member_is_described_with_its_partitions(
        self,
        admin: AdminClient,
        broker: Any,
        new_topic: Callable[..., str],
        unique: Callable[[str], str],
        eventually: Callable[..., Any],
    ) -> None:
        name, topic = unique("group"), new_topic(partitions=2)
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": name, "client.id": "c", "group.instance.id": "i"}
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or len(consumer.assignment()) == 2)

        described = admin.describe_consumer_groups([name])[name].result(timeout=TIMEOUT_S)
        consumer.close()

        (member,) = described.members
        assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        assert (member.client_id, member.group_instance_id, member.host) == ("c", "i", "/127.0.0.1")
        assert [(place.topic, place.partition) for place in member.assignment.topic_partitions] == [
            (topic, 0),
            (topic, 1),
        ]

    def test_offsets_of_a_group_are_listed_altered_and_deleted_with_it(
        self, admin: AdminClient, group: tuple[str, TopicPartition]
    ) -> None:
        name, place = group

        def committed() -> list[int]:
            request = [ConsumerGroupTopicPartitions(name)]
            found = admin.list_consumer_group_offsets(request)[name].result(timeout=TIMEOUT_S)
            return [row.offset for row in found.topic_partitions]

        assert committed() == [5]
        place.offset = 9
        change = ConsumerGroupTopicPartitions(name, [place])
        admin.alter_consumer_group_offsets([change])[name].result(timeout=TIMEOUT_S)
        assert committed() == [9]
        admin.delete_consumer_groups([name])[name].result(timeout=TIMEOUT_S)
        assert committed() == []

    def test_deleting_a_missing_group_is_an_error(self, admin: AdminClient, unique: Callable[[str], str]) -> None:
        name = unique("nobody")

        assert error_of(admin.delete_consumer_groups([name])[name])[0] == KafkaError.GROUP_ID_NOT_FOUND
