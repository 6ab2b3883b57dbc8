"""AdminClient: responses become values, error codes become KafkaError with the broker's message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AdminClient
from ottla.client.results import ConfigEntry, ListedOffset
from ottla.config.alter import AlterOperation
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition, Uuid, format_uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.registry import ApiKey

ResultT = TypeVar("ResultT")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def call_admin(broker: Any, call: Callable[[AdminClient], Awaitable[ResultT]]) -> ResultT:
    """Run one call of an AdminClient against ``broker``."""

    async def run() -> ResultT:
        async with broker, AdminClient([broker.endpoint]) as admin:
            return await call(admin)

    return asyncio.run(run())


class TestTopics:
    def test_missing_topic_is_absent(self, broker: Any) -> None:
        broker.serve_topic("t", [1, 1])

        described = call_admin(broker, lambda admin: admin.describe_topics(["t", "nope"]))

        assert list(described) == ["t"]
        assert (described["t"].partition_count, described["t"].replication_factor) == (2, 1)

    def test_no_names_send_no_request(self, broker: Any) -> None:
        assert call_admin(broker, lambda admin: admin.describe_topics([])) == {}
        assert broker.requests == []

    def test_topics_are_listed(self, broker: Any) -> None:
        broker.serve_topic("t", [1])

        assert [topic.name for topic in call_admin(broker, lambda admin: admin.list_topics())] == ["t"]

    def test_create_topics_request_has_the_arguments(self, broker: Any) -> None:
        broker.scripts[CreateTopicsRequest] = lambda _: CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])

        call_admin(broker, lambda admin: admin.create_topic("t", partitions=3, config={"retention.ms": "1"}))

        (topic,) = broker.sent(CreateTopicsRequest)[0].topics
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 3, -1)
        assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "1")]

    def test_error_keeps_the_brokers_message(self, broker: Any) -> None:
        broker.scripts[CreateTopicsRequest] = lambda _: CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=36, error_message="Topic 't' already exists.")]
        )

        with pytest.raises(KafkaError) as caught:
            call_admin(broker, lambda admin: admin.create_topic("t"))

        assert (caught.value.code, caught.value.message) == (
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 't' already exists.",
        )

    def test_request_is_retried_while_there_is_no_controller(self, broker: Any) -> None:
        codes = [41, 0]
        broker.scripts[CreateTopicsRequest] = lambda _: CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=codes.pop(0))]
        )

        call_admin(broker, lambda admin: admin.create_topic("t"))

        assert len(broker.sent(CreateTopicsRequest)) == 2

    def test_partition_count_is_increased(self, broker: Any) -> None:
        broker.scripts[CreatePartitionsRequest] = lambda _: CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name="t")]
        )

        call_admin(broker, lambda admin: admin.create_partitions("t", total=5))

        assert broker.sent(CreatePartitionsRequest)[0].topics[0].count == 5

    def test_topic_is_deleted(self, broker: Any) -> None:
        broker.scripts[DeleteTopicsRequest] = lambda _: DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")])

        call_admin(broker, lambda admin: admin.delete_topic("t"))

        assert broker.sent(DeleteTopicsRequest)[0].topic_names == ["t"]

    def test_offsets_are_requested_from_leaders_until_all_have_responded(self, broker: Any) -> None:
        broker.serve_topic("t", [1, 1])
        codes = [6, 0]

        def respond(request: ListOffsetsRequest) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name="t",
                        partitions=[
                            ListOffsetsPartitionResponse(
                                partition_index=partition.partition_index,
                                error_code=codes.pop(0) if partition.partition_index else 0,
                                offset=10 + partition.partition_index,
                            )
                            for partition in request.topics[0].partitions
                        ],
                    )
                ]
            )

        broker.scripts[ListOffsetsRequest] = respond

        offsets = call_admin(broker, lambda admin: admin.list_offsets({T0: -1, T1: -1}))

        assert offsets == {
            T0: ListedOffset(offset=10, timestamp_ms=-1, leader_epoch=-1),
            T1: ListedOffset(offset=11, timestamp_ms=-1, leader_epoch=-1),
        }
        assert [len(request.topics[0].partitions) for request in broker.sent(ListOffsetsRequest)] == [2, 1]

    def test_records_are_deleted_at_the_leader(self, broker: Any) -> None:
        broker.serve_topic("t", [1])
        broker.scripts[DeleteRecordsRequest] = lambda request: DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name="t",
                    partitions=[
                        DeleteRecordsPartitionResult(
                            partition_index=0, low_watermark=request.topics[0].partitions[0].offset
                        )
                    ],
                )
            ]
        )

        assert call_admin(broker, lambda admin: admin.delete_records({T0: 7})) == {T0: 7}


class TestConfigs:
    def test_config_entry_has_its_synonyms(self, broker: Any) -> None:
        broker.scripts[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    configs=[
                        DescribeConfigsResourceResult(
                            name="retention.ms",
                            value="1",
                            config_source=1,
                            synonyms=[DescribeConfigsSynonym(name="retention.ms", value="1", source=1)],
                        )
                    ]
                )
            ]
        )

        entries = call_admin(broker, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, "t"))

        assert entries == [
            ConfigEntry(
                name="retention.ms",
                value="1",
                source="DYNAMIC_TOPIC_CONFIG",
                synonyms=(("retention.ms", "1", "DYNAMIC_TOPIC_CONFIG"),),
            )
        ]

    def test_only_configs_of_the_topic_itself_are_returned(self, broker: Any) -> None:
        broker.scripts[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_name="t",
                    configs=[
                        DescribeConfigsResourceResult(name="own", value="1", config_source=1),
                        DescribeConfigsResourceResult(name="inherited", value="2", config_source=5),
                    ],
                ),
                DescribeConfigsResult(resource_name="nope", error_code=3),
            ]
        )

        assert call_admin(broker, lambda admin: admin.describe_topic_configs(["t", "nope"])) == {"t": {"own": "1"}}

    def test_config_changes_are_sent_in_one_request(self, broker: Any) -> None:
        broker.scripts[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse()]
        )

        call_admin(
            broker,
            lambda admin: admin.alter_configs(
                ConfigResourceType.TOPIC,
                "t",
                upserts={"a": "1"},
                deletions=["b"],
                appends={"c": "x"},
                subtractions={"d": "y"},
            ),
        )

        (resource,) = broker.sent(IncrementalAlterConfigsRequest)[0].resources
        assert [(config.name, config.config_operation, config.value) for config in resource.configs] == [
            ("a", AlterOperation.SET, "1"),
            ("b", AlterOperation.DELETE, None),
            ("c", AlterOperation.APPEND, "x"),
            ("d", AlterOperation.SUBTRACT, "y"),
        ]

    def test_configs_of_a_broker_are_requested_from_that_broker(self, make_broker: Callable[[int], Any]) -> None:
        first, second = make_broker(1), make_broker(2)
        second.scripts[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(results=[DescribeConfigsResult()])

        async def run() -> None:
            async with first, second, AdminClient([first.endpoint]) as admin:
                first.serve_topic("t", [1], [first, second])
                await admin.describe_configs(ConfigResourceType.BROKER, "2")

        asyncio.run(run())

        assert second.sent(DescribeConfigsRequest)[0].resources[0].resource_name == "2"

    def test_broker_name_that_is_no_number_is_rejected_by_the_client(self, broker: Any) -> None:
        with pytest.raises(KafkaError, match="'x' is not the id of a broker"):
            call_admin(broker, lambda admin: admin.describe_configs(ConfigResourceType.BROKER, "x"))


class TestCluster:
    def test_brokers_are_sorted(self, broker: Any) -> None:
        broker.scripts[DescribeClusterRequest] = lambda _: DescribeClusterResponse(
            cluster_id="c",
            controller_id=2,
            brokers=[DescribeClusterBroker(broker_id=number, host="h", port=9092) for number in (2, 1)],
        )

        cluster = call_admin(broker, lambda admin: admin.describe_cluster())

        assert (cluster.cluster_id, cluster.controller_id) == ("c", 2)
        assert [str(described.endpoint) for described in cluster.brokers] == ["h:9092", "h:9092"]
        assert [described.node_id for described in cluster.brokers] == [1, 2]

    def test_old_kafka_is_described_from_metadata(self, broker: Any) -> None:
        del broker.versions[ApiKey.DESCRIBE_CLUSTER]
        broker.serve_topic("t", [1])

        cluster = call_admin(broker, lambda admin: admin.describe_cluster())

        assert (cluster.cluster_id, [described.node_id for described in cluster.brokers]) == ("a-cluster", [1])

    def test_quorum_is_described_with_endpoints(self, broker: Any) -> None:
        directory = Uuid(bytes(15) + b"\7")
        partition = DescribeQuorumResponsePartitionData(
            leader_id=1,
            leader_epoch=3,
            high_watermark=9,
            current_voters=[ReplicaState(replica_id=1, replica_directory_id=directory, log_end_offset=9)],
        )
        broker.scripts[DescribeQuorumRequest] = lambda _: DescribeQuorumResponse(
            topics=[DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])],
            nodes=[Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="h", port=9093)])],
        )

        quorum = call_admin(broker, lambda admin: admin.describe_quorum())

        assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 3, 9)
        assert quorum.voters[0].directory_id == format_uuid(directory)
        assert quorum.voters[0].endpoints == ("CONTROLLER://h:9093",)

    def test_log_directories_are_returned_by_broker(self, broker: Any) -> None:
        broker.serve_topic("t", [1])
        partition = DescribeLogDirsPartition(partition_index=0, partition_size=10, offset_lag=2)
        broker.scripts[DescribeLogDirsRequest] = lambda _: DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    log_dir="/d", topics=[DescribeLogDirsTopic(name="t", partitions=[partition])], total_bytes=5
                ),
                DescribeLogDirsResult(log_dir="/e", error_code=56),
            ]
        )

        good, bad = call_admin(broker, lambda admin: admin.describe_log_dirs())[1]

        assert (good.path, good.error, good.total_bytes, good.replicas[T0].size_bytes) == ("/d", None, 5, 10)
        assert (bad.path, bad.error) == ("/e", "KAFKA_STORAGE_ERROR")
