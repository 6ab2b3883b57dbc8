"""Admin requests over the wire, to a whole node; the responses are those recorded from Kafka 4.3.1."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.world.single_node import RunningNode, World
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import alter_user_scram_credentials as alter_scram
from ottla.wire.messages import (
    create_acls,
    create_partitions,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_quorum,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from ottla.wire.messages import describe_user_scram_credentials as scram
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.registry import ApiKey, response_type

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(node: RunningNode, request: Message, version: int, listener: str = "PLAINTEXT") -> Any:
    return node.connect(listener).ask(request, response_type(ApiKey(request.api_key)), version)


@pytest.fixture
def node(running: RunningNode) -> RunningNode:
    """A node with the topic t of four partitions, retention.ms set to 77."""
    topic = CreatableTopic(name="t", num_partitions=4, replication_factor=1)
    topic.configs = [CreatableTopicConfig(name="retention.ms", value="77")]
    assert ask(running, CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == ErrorCode.NONE
    return running


@pytest.mark.parametrize("version", range(2, 8))
def test_topic_is_created_in_every_version(running: RunningNode, version: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)

    (result,) = ask(running, CreateTopicsRequest(topics=[topic]), version).topics

    assert (result.name, result.error_code) == ("t", ErrorCode.NONE)
    assert result.num_partitions == (2 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(1, 7))
def test_topic_is_deleted_in_every_version(node: RunningNode, version: int) -> None:
    request = delete_topics.DeleteTopicsRequest(topic_names=["t"])
    if version >= 6:
        request = delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="t")])

    (result,) = ask(node, request, version).responses

    assert (result.name, result.error_code) == ("t", ErrorCode.NONE)
    assert node.node.metadata.topic("t") is None


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_of_topics_can_be_disabled(world: World, version: int, code: ErrorCode) -> None:
    node = world.start_node(**{"delete.topic.enable": "false"})

    assert ask(node, delete_topics.DeleteTopicsRequest(topic_names=["t"]), version).responses[0].error_code == code


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version(node: RunningNode, version: int) -> None:
    topic = create_partitions.CreatePartitionsTopic(name="t", count=6, assignments=None)

    (result,) = ask(node, create_partitions.CreatePartitionsRequest(topics=[topic]), version).results

    assert result.error_code == ErrorCode.NONE
    assert node.node.metadata.partition_count("t") == 6


def describe(node: RunningNode, kind: int, name: str, keys: list[str] | None = None, **said: bool) -> Any:
    resource = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = describe_configs.DescribeConfigsRequest(resources=[resource], **said)
    return ask(node, request, 4).results[0]


def test_settings_of_a_topic_have_their_source(node: RunningNode) -> None:
    response = describe(node, TOPIC, "t", ["retention.ms", "nope"], include_synonyms=True, include_documentation=True)

    (config,) = response.configs
    assert (config.name, config.value, config.config_source, config.config_type) == ("retention.ms", "77", 1, 5)
    assert config.synonyms[0] == describe_configs.DescribeConfigsSynonym(name="retention.ms", value="77", source=1)
    assert config.documentation


@pytest.mark.parametrize("keys", [None, []])
def test_without_keys_every_setting_is_described(node: RunningNode, keys: list[str] | None) -> None:
    assert len(describe(node, TOPIC, "t", keys).configs) == 33


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            BROKER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 9",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 99"),
    ],
)
def test_settings_of_unknown_resources_are_rejected(
    node: RunningNode, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    response = describe(node, kind, name)

    assert (response.error_code, response.error_message, response.configs) == (code, message, [])


@pytest.mark.parametrize(("kind", "name", "count"), [(BROKER, "", 1), (GROUP, "g", 17), (CLIENT_METRICS, "m", 3)])
def test_every_type_of_resource_is_described(node: RunningNode, kind: int, name: str, count: int) -> None:
    assert len(describe(node, kind, name).configs) == count


def test_dynamic_broker_setting_overrides_the_static_one(node: RunningNode) -> None:
    config = incremental.AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    resource = incremental.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    response = ask(node, incremental.IncrementalAlterConfigsRequest(resources=[resource]), 1)

    (described,) = describe(node, BROKER, "1", ["log.cleaner.threads"], include_synonyms=True).configs

    assert response.responses[0].error_code == ErrorCode.NONE
    assert (described.value, described.config_source) == ("2", 2)
    assert [(each.value, each.source) for each in described.synonyms] == [("2", 2), ("1", 5)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("9", "Unexpected broker id, expected 1, but received 9"),
        ("x", "Node id must be an integer, but it is: x"),
    ],
)
@pytest.mark.parametrize("is_incremental", [True, False], ids=["incremental", "full"])
def test_settings_of_another_broker_are_rejected_and_the_rest_is_changed(
    node: RunningNode, name: str, message: str, is_incremental: bool
) -> None:
    request: Message
    if is_incremental:
        change = [incremental.AlterableConfig(name="segment.ms", config_operation=0, value="9")]
        request = incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(resource_type=BROKER, resource_name=name),
                incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=change),
            ]
        )
    else:
        request = full.AlterConfigsRequest(
            resources=[
                full.AlterConfigsResource(resource_type=BROKER, resource_name=name),
                full.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[full.AlterableConfig(name="segment.ms", value="9")],
                ),
            ]
        )

    rejected, changed = ask(node, request, 1).responses

    assert (rejected.error_code, rejected.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert changed.error_code == ErrorCode.NONE
    assert node.node.metadata.topic_config("t")["segment.ms"] == "9"


def cordon(node: RunningNode, *entries: str) -> Any:
    config = incremental.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=",".join(entries))
    resource = incremental.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    return ask(node, incremental.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


def test_configured_directories_are_cordoned_at_startup(world: World) -> None:
    node = world.start_node(**{"cordoned.log.dirs": "*"})
    node.run(100)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)

    (result,) = ask(node, CreateTopicsRequest(topics=[topic]), 7).topics

    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "all their log directories cordoned" in result.error_message


def test_broker_with_all_directories_cordoned_gets_no_new_replicas(running: RunningNode) -> None:
    def create(name: str) -> ErrorCode:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return ErrorCode(ask(running, CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code)

    def shown(version: int) -> list[bool]:
        response = ask(running, DescribeLogDirsRequest(topics=None), version)
        return [each.is_cordoned for each in response.results]

    assert cordon(running, "*").error_code == ErrorCode.NONE
    running.run(100)

    assert create("rejected") == ErrorCode.INVALID_REPLICATION_FACTOR
    assert (shown(5), shown(4)) == ([True], [False])

    assert cordon(running).error_code == ErrorCode.NONE
    running.run(100)

    assert create("taken") == ErrorCode.NONE
    assert shown(5) == [False]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            ["/nope"],
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /nope",
        ),
        (["*", "/data"], "When cordoned.log.dirs is set to *, it must not contain other values"),
    ],
    ids=["not-there", "all-and-one"],
)
def test_only_the_brokers_own_directories_can_be_cordoned(
    running: RunningNode, entries: list[str], message: str
) -> None:
    rejected = cordon(running, *entries)

    assert (rejected.error_code, rejected.error_message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize("name", ["1", ""], ids=["one-broker", "default"])
@pytest.mark.parametrize("is_incremental", [True, False], ids=["incremental", "full"])
@pytest.mark.parametrize(
    ("listener", "code"), [("PLAINTEXT", ErrorCode.INVALID_REQUEST), ("CONTROLLER", ErrorCode.NONE)]
)
def test_broker_limits_steps_of_thread_counts_and_a_controller_does_not(
    node: RunningNode, name: str, is_incremental: bool, listener: str, code: ErrorCode
) -> None:
    request: Message
    if is_incremental:
        change = [incremental.AlterableConfig(name="num.io.threads", config_operation=0, value="17")]
        step = incremental.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=change)
        request = incremental.IncrementalAlterConfigsRequest(resources=[step])
    else:
        unchanged = {} if name else {"min.insync.replicas": "1"}
        wanted = [
            full.AlterableConfig(name=key, value=text) for key, text in {"num.io.threads": "17", **unchanged}.items()
        ]
        request = full.AlterConfigsRequest(
            resources=[full.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=wanted)]
        )

    (result,) = ask(node, request, 1, listener).responses

    assert result.error_code == code


@pytest.mark.parametrize(
    ("version", "types", "expected"),
    [
        pytest.param(0, [], [], id="v0-client-metrics"),
        pytest.param(1, [TOPIC], [(TOPIC, "t")], id="topics"),
        pytest.param(1, [], [(BROKER, "1"), (TOPIC, "t")], id="all"),
    ],
)
def test_resources_are_listed(
    node: RunningNode, version: int, types: list[int], expected: list[tuple[int, str]]
) -> None:
    response = ask(node, list_config_resources.ListConfigResourcesRequest(resource_types=types), version)

    assert [(each.resource_type, each.resource_name) for each in response.config_resources] == expected


def test_resources_of_unknown_type_are_not_listed(node: RunningNode) -> None:
    response = ask(node, list_config_resources.ListConfigResourcesRequest(resource_types=[99]), 1)

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


def quorum_request(topic: str = "__cluster_metadata", partition: int = 0) -> describe_quorum.DescribeQuorumRequest:
    partitions = [describe_quorum.DescribeQuorumRequestPartitionData(partition_index=partition)]
    topics = [describe_quorum.DescribeQuorumRequestTopicData(topic_name=topic, partitions=partitions)]
    return describe_quorum.DescribeQuorumRequest(topics=topics)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_quorum_is_described_in_every_version(node: RunningNode, version: int) -> None:
    response = ask(node, quorum_request(), version)

    (partition,) = response.topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.leader_id, partition.leader_epoch, voter.replica_id) == (1, 1, 1)
    assert partition.high_watermark <= voter.log_end_offset
    assert (voter.last_fetch_timestamp > 0) == (version >= 1)
    assert (voter.replica_directory_id != Uuid(bytes(16))) == (version >= 2)
    listeners = [(each.name, each.port) for each_node in response.nodes for each in each_node.listeners]
    assert listeners == ([("CONTROLLER", 9093)] if version >= 2 else [])


@pytest.mark.parametrize(("topic", "partition"), [("x", 0), ("__cluster_metadata", 1)])
def test_other_topics_have_no_quorum(node: RunningNode, topic: str, partition: int) -> None:
    (result,) = ask(node, quorum_request(topic, partition), 2).topics[0].partitions

    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_election_that_is_not_needed_returns_its_error(node: RunningNode, version: int) -> None:
    wanted = [elect_leaders.TopicPartitions(topic="t", partitions=[0])]

    response = ask(node, elect_leaders.ElectLeadersRequest(topic_partitions=wanted), version)

    (partition,) = response.replica_election_results[0].partition_result
    assert partition.error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_unknown_feature_is_rejected(node: RunningNode) -> None:
    key = update_features.FeatureUpdateKey(feature="nope", max_version_level=1)

    response = ask(node, update_features.UpdateFeaturesRequest(feature_updates=[key]), 2)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_unknown_broker_is_not_unregistered(node: RunningNode) -> None:
    response = ask(node, unregister_broker.UnregisterBrokerRequest(broker_id=9), 0)

    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_no_reassignments_are_listed(node: RunningNode) -> None:
    everything = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
    some = list_partition_reassignments.ListPartitionReassignmentsRequest(
        topics=[list_partition_reassignments.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 9])]
    )

    assert ask(node, everything, 0).topics == []
    assert ask(node, some, 0).topics == []


def test_without_an_authorizer_access_control_is_disabled(node: RunningNode) -> None:
    described = ask(node, describe_acls.DescribeAclsRequest(), 3)
    created = ask(node, create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()]), 3)
    deleted = ask(node, delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()]), 3)

    assert described.error_message == "No Authorizer is configured on the broker"
    assert created.results[0].error_message == "No Authorizer is configured."
    assert deleted.filter_results[0].error_message == "No Authorizer is configured."
    codes = (described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code)
    assert set(codes) == {ErrorCode.SECURITY_DISABLED}


def test_there_are_no_client_quotas(node: RunningNode) -> None:
    assert ask(node, describe_client_quotas.DescribeClientQuotasRequest(), 1).entries == []


def test_credentials_are_listed_without_their_keys(node: RunningNode) -> None:
    upsertions = [
        alter_scram.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
        )
        for name, mechanism, iterations in (("bob", 2, 4096), ("alice", 1, 8192))
    ]
    ask(node, alter_scram.AlterUserScramCredentialsRequest(upsertions=upsertions), 0)

    def described(*names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
        users = [scram.UserName(name=name) for name in names]
        response = ask(node, scram.DescribeUserScramCredentialsRequest(users=users), 0)
        return [
            (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
            for each in response.results
        ]

    assert described() == [("alice", ErrorCode.NONE, [(1, 8192)]), ("bob", ErrorCode.NONE, [(2, 4096)])]
    assert described("bob") == [("bob", ErrorCode.NONE, [(2, 4096)])]
    assert described("eve") == [("eve", ErrorCode.RESOURCE_NOT_FOUND, [])]
    assert described("bob", "bob") == [("bob", ErrorCode.DUPLICATE_RESOURCE, [])]


def test_apis_between_nodes_need_a_controller_listener(node: RunningNode) -> None:
    broker = node.node.metadata.broker(1)
    assert broker is not None

    registered = ask(node, BrokerRegistrationRequest(broker_id=2, cluster_id="another"), 4, "CONTROLLER")
    beaten = ask(node, BrokerHeartbeatRequest(broker_id=2), 2, "CONTROLLER")
    allocated = ask(node, AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.epoch), 0, "CONTROLLER")

    assert registered.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert beaten.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (allocated.producer_id_start, allocated.producer_id_len) == (0, 1_000)


def test_kraft_version_is_a_finalized_feature(node: RunningNode) -> None:
    response = ask(node, ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)

    levels = {each.name: each.max_version_level for each in response.finalized_features}
    assert (levels["kraft.version"], levels["metadata.version"]) == (1, 30)
