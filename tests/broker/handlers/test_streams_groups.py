"""StreamsGroupHeartbeat and StreamsGroupDescribe: permissions, names of topics, and creation of internal topics."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.topic_creation_errors import ERRORS_MAX, TopicCreationErrors
from ottla.simulator.world.single_node import RunningNode, World
from ottla.wire.acl_codes import Operation, PatternType, PermissionType, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.registry import ApiKey, response_type
from ottla.wire.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MISSING_INTERNAL_TOPICS = 3
REPARTITION, CHANGELOG = "words-repartition", "words-changelog"
ALLOWED_UNLESS_DENIED = {
    "authorizer_class_name": AUTHORIZER,
    "super_users": "User:admin",
    "allow_everyone_if_no_acl_found": "true",
}


def ask(node: RunningNode, request: Message, version: int = 0) -> Any:
    return node.connect().ask(request, response_type(ApiKey(request.api_key)), version)


def start(world: World, *topics: str, **overrides: str) -> RunningNode:
    """Start a node with these topics, that has a coordinator of groups."""
    node = world.start_node(**overrides)
    created = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in topics]
    ask(node, CreateTopicsRequest(topics=created, timeout_ms=1_000), 7)
    ask(node, FindCoordinatorRequest(key_type=0, coordinator_keys=["words"]), 4)
    node.run(1_000)
    return node


def add_entry(
    node: RunningNode,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    permission_type: PermissionType = PermissionType.DENY,
) -> None:
    entry = AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=permission_type,
    )
    (result,) = ask(node, CreateAclsRequest(creations=[entry]), 3).results
    assert result.error_code == ErrorCode.NONE
    node.run(100)


def topology(*sources: str, replication_factor: int = 0) -> Topology:
    """Return that of a word count: by a repartition topic of two partitions, with one store."""
    by_word = TopicInfo(
        name=REPARTITION,
        partitions=2,
        replication_factor=replication_factor,
        topic_configs=[KeyValue(key="segment.bytes", value="52428800")],
    )
    counts = TopicInfo(
        name=CHANGELOG,
        replication_factor=replication_factor,
        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
    )
    return Topology(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=list(sources), repartition_sink_topics=[REPARTITION]),
            Subtopology(subtopology_id="1", repartition_source_topics=[by_word], state_changelog_topics=[counts]),
        ]
    )


def heartbeat(node: RunningNode, sent: Topology | None, **changes: Any) -> StreamsGroupHeartbeatResponse:
    fields: dict[str, Any] = {
        "group_id": "words",
        "member_id": "member",
        "rebalance_timeout_ms": 1_500,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "process",
        "topology": sent,
    }
    response = ask(node, StreamsGroupHeartbeatRequest(**fields | changes))
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    return response


def describe(node: RunningNode, *groups: str, authorized_operations: bool = False) -> list[DescribedGroup]:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=authorized_operations)
    response = ask(node, request)
    assert isinstance(response.groups, list)
    return response.groups


def internal_topic_detail(response: StreamsGroupHeartbeatResponse) -> str | None:
    details = [each.status_detail for each in response.status or () if each.status_code == MISSING_INTERNAL_TOPICS]
    assert len(details) <= 1
    return details[0] if details else None


def disabled_nodes(world: World) -> Iterator[RunningNode]:
    yield start(world, group_coordinator_rebalance_protocols="classic,consumer")
    node = start(World())
    update = FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
    assert ask(node, UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == ErrorCode.NONE
    node.run(100)
    yield node


def test_requests_fail_while_the_protocol_is_off(world: World) -> None:
    for node in disabled_nodes(world):
        assert heartbeat(node, topology("t")).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(group.group_id, group.error_code) for group in describe(node, "words", "others")] == [
            ("words", ErrorCode.UNSUPPORTED_VERSION),
            ("others", ErrorCode.UNSUPPORTED_VERSION),
        ]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        pytest.param(
            ["t", "__consumer_offsets", "__transaction_state"],
            "Use of Kafka internal topics __consumer_offsets,__transaction_state in a Kafka Streams topology is "
            "prohibited.",
            id="internal-topics",
        ),
        pytest.param(["t", "a b", ""], "Topic names a b, are not valid topic names.", id="invalid-names"),
        pytest.param(
            [f"!{number}" for number in range(22)],
            f"Topic names {','.join(f'!{number}' for number in range(20))} and 2 more are not valid topic names.",
            id="many-invalid-names",
        ),
    ],
)
def test_topology_with_wrong_names_of_topics_is_rejected(world: World, sources: list[str], message: str) -> None:
    response = heartbeat(start(world, "t"), topology(*sources))

    assert (response.error_code, response.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def test_longest_invalid_names_fit_the_error_message(world: World) -> None:
    names = [f"{number:02}" + "\N{PILE OF POO}" * 5_000 for number in range(30)]

    response = heartbeat(start(world), topology(*names))

    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert response.error_message is not None
    assert len(response.error_message.encode()) < 32_767
    assert response.error_message.endswith(" and 10 more are not valid topic names.")


def test_internal_topics_are_created_as_the_topology_says(world: World) -> None:
    node = start(world, "t")

    detail = internal_topic_detail(heartbeat(node, topology("t")))
    node.run(1_000)

    assert detail is not None
    assert REPARTITION in detail
    metadata = node.node.services.metadata
    assert (metadata.partition_count(REPARTITION), metadata.partition_count(CHANGELOG)) == (2, 2)
    assert node.node.services.topics_in_flight == set()
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in (REPARTITION, CHANGELOG)]
    repartition, changelog = (
        {config.name: config.value for config in result.configs}
        for result in ask(node, DescribeConfigsRequest(resources=resources), 4).results
    )
    assert (repartition["segment.bytes"], changelog["cleanup.policy"]) == ("52428800", "compact")


def test_member_receives_why_its_internal_topics_could_not_be_created(world: World) -> None:
    node = start(world, "t")
    sent = topology("t", replication_factor=3)

    heartbeat(node, sent)
    node.run(100)
    detail = internal_topic_detail(heartbeat(node, sent))

    assert detail is not None
    assert "; Creation failed: " in detail
    assert f"{REPARTITION} (" in detail
    assert "replication factor" in detail.lower()


def test_topic_is_not_requested_again_while_its_error_is_kept(world: World) -> None:
    node = start(world, "t")
    sent = topology("t", replication_factor=3)
    interval_ms = heartbeat(node, sent).heartbeat_interval_ms
    node.run(100)

    def is_kept() -> bool:
        now_ms = node.clock.monotonic_ms()
        return node.node.services.topic_creation_errors.message(REPARTITION, now_ms=now_ms) is not None

    assert is_kept()
    node.run(2 * interval_ms - 200)
    heartbeat(node, sent)
    node.run(200)
    assert not is_kept()
    heartbeat(node, sent)
    node.run(100)
    assert is_kept()


def test_internal_topics_count_for_the_clients_quota(world: World) -> None:
    node = start(world, "t")
    limit = AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name="test")],
        ops=[OpData(key="controller_mutation_rate", value=1.0)],
    )
    ask(node, AlterClientQuotasRequest(entries=[limit]), 1)
    node.run(100)
    many = CreatableTopic(name="many", num_partitions=20, replication_factor=1)
    ask(node, CreateTopicsRequest(topics=[many], timeout_ms=1_000), 7)

    heartbeat(node, topology("t"))
    node.run(100)
    detail = internal_topic_detail(heartbeat(node, topology("t")))

    assert detail is not None
    assert "; Creation failed: " in detail
    assert f"{REPARTITION} (THROTTLING_QUOTA_EXCEEDED)" in detail
    assert node.node.services.metadata.partition_count(REPARTITION) is None


def test_client_without_create_is_given_the_names_of_the_topics(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    # A topic with entries has only what they allow.
    add_entry(node, Operation.DESCRIBE, ResourceType.TOPIC, CHANGELOG, PermissionType.ALLOW)
    add_entry(node, Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster")

    detail = internal_topic_detail(heartbeat(node, topology("t")))
    node.run(1_000)

    assert detail is not None
    assert detail.endswith(f"; Unauthorized to CREATE on topics {CHANGELOG}.")
    assert node.node.services.metadata.partition_count(REPARTITION) is None


def test_create_on_each_topic_suffices(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    add_entry(node, Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster")

    heartbeat(node, topology("t"))
    node.run(1_000)

    assert node.node.services.metadata.partition_count(CHANGELOG) == 2


def test_heartbeat_requires_read_on_the_group(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    add_entry(node, Operation.READ, ResourceType.GROUP, "words")

    assert heartbeat(node, topology("t")).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("hidden", ["t", REPARTITION, CHANGELOG])
def test_heartbeat_requires_describe_on_each_topic(world: World, hidden: str) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    add_entry(node, Operation.DESCRIBE, ResourceType.TOPIC, hidden)

    response = heartbeat(node, topology("t"))

    assert (response.error_code, response.error_message) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_description_names_topology_and_authorized_operations(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    heartbeat(node, topology("t"))

    (group,) = describe(node, "words", authorized_operations=True)

    assert group.error_code == ErrorCode.NONE
    assert group.topology is not None
    assert [each.source_topics for each in group.topology.subtopologies or ()] == [["t"], []]
    assert group.authorized_operations & 1 << Operation.READ


def test_groups_that_the_client_may_not_describe_come_first(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    heartbeat(node, topology("t"))
    add_entry(node, Operation.DESCRIBE, ResourceType.GROUP, "others")

    groups = describe(node, "words", "others")

    assert [(group.group_id, group.error_code) for group in groups] == [
        ("others", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("words", ErrorCode.NONE),
    ]


def test_group_with_a_hidden_topic_is_not_described(world: World) -> None:
    node = start(world, "t", **ALLOWED_UNLESS_DENIED)
    heartbeat(node, topology("t"))
    add_entry(node, Operation.DESCRIBE, ResourceType.TOPIC, CHANGELOG)

    (group,) = describe(node, "words", authorized_operations=True)

    assert group == DescribedGroup(
        group_id="words",
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
    )


def test_topology_with_very_many_topics_leaves_no_topic_in_flight(world: World) -> None:
    node = start(world, "t")
    changelogs = [TopicInfo(name=f"store-{number}") for number in range(100)]
    sent = Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=changelogs)]
    )

    heartbeat(node, sent)
    node.run(3_000)

    metadata = node.node.services.metadata
    assert [metadata.partition_count(topic.name) for topic in changelogs] == [2] * 100
    assert node.node.services.topics_in_flight == set()


def test_error_of_a_creation_expires() -> None:
    errors = TopicCreationErrors()

    errors.add("t", "no broker", expires_at_ms=10)

    assert errors.message("t", now_ms=9) == "no broker"
    assert errors.message("t", now_ms=10) is None
    assert errors.message("t", now_ms=9) is None


def test_oldest_error_of_a_creation_is_removed_when_there_are_too_many() -> None:
    errors = TopicCreationErrors()
    for number in range(ERRORS_MAX):
        errors.add(str(number), "no broker", expires_at_ms=10)
    errors.add("0", "no broker any more", expires_at_ms=20)

    errors.add("one more", "x" * 2_000, expires_at_ms=20)

    assert errors.message("0", now_ms=0) == "no broker any more"
    assert errors.message("1", now_ms=0) is None
    assert len(errors.message("one more", now_ms=0) or "") < 1_100
