"""Entries are added, listed and removed over the wire, and take effect at once."""

from typing import Any

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.replication.sessions.fetch_session import RETRY_MS
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import CONSUMER_OFFSETS_TOPIC, Endpoint
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.registry import ApiKey, response_type

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANY = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": PermissionType.ANY,
}


@pytest.fixture
def secured(world: World) -> RunningNode:
    """A node with an authorizer, whose clients are super users."""
    return world.start_node(authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")


def ask(node: RunningNode, request: Message, version: int = 3) -> Any:
    return node.connect().ask(request, response_type(ApiKey(request.api_key)), version)


def creation(**changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": PermissionType.ALLOW,
    }
    return AclCreation(**{**fields, **changes})


def create(node: RunningNode, *creations: AclCreation) -> list[int]:
    return [each.error_code for each in ask(node, CreateAclsRequest(creations=list(creations))).results]


def listed(node: RunningNode, **changes: Any) -> list[tuple[str, str, str]]:
    """Return resource name, principal and operation of what a filter finds."""
    response = ask(node, DescribeAclsRequest(**{**ANY, **changes}))
    assert response.error_code == ErrorCode.NONE
    return sorted(
        (each.resource_name, acl.principal, Operation(acl.operation).name)
        for each in response.resources
        for acl in each.acls
    )


def test_added_entries_are_listed_and_removed_ones_are_not(secured: RunningNode) -> None:
    assert create(secured, creation(), creation(operation=Operation.WRITE)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert listed(secured) == [("orders", "User:alice", "READ"), ("orders", "User:alice", "WRITE")]

    reads = DeleteAclsFilter(**{**ANY, "operation": Operation.READ})
    (result,) = ask(secured, DeleteAclsRequest(filters=[reads])).filter_results

    assert (result.error_code, [each.operation for each in result.matching_acls]) == (ErrorCode.NONE, [Operation.READ])
    assert listed(secured) == [("orders", "User:alice", "WRITE")]


def test_duplicate_entry_is_listed_once(secured: RunningNode) -> None:
    assert create(secured, creation(), creation()) == [ErrorCode.NONE] * 2
    assert create(secured, creation()) == [ErrorCode.NONE]

    assert len(listed(secured)) == 1


def test_entries_survive_a_restart(world: World, secured: RunningNode) -> None:
    create(secured, creation())
    secured.node.begin_shutdown()
    secured.run_until(lambda: bool(secured.stopped))
    secured.node.close()

    again = world.start_node(authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")

    assert listed(again) == [("orders", "User:alice", "READ")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"resource_type": ResourceType.CLUSTER},
            "The only valid name for the CLUSTER resource is kafka-cluster",
            id="another-cluster",
        ),
        pytest.param({"resource_name": ""}, "Invalid empty resource name", id="no-name"),
        pytest.param({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY", id="any-type"),
        pytest.param({"resource_type": 99}, "Invalid resourceType UNKNOWN", id="unknown-type"),
        pytest.param({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH", id="match"),
        pytest.param({"operation": Operation.ANY}, "Invalid operation ANY", id="any-operation"),
        pytest.param({"permission_type": PermissionType.ANY}, "Invalid permissionType ANY", id="any-permission"),
        pytest.param(
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
            id="no-colon",
        ),
    ],
)
def test_invalid_entry_is_rejected_and_the_rest_is_added(
    secured: RunningNode, changes: dict[str, Any], message: str
) -> None:
    response = ask(secured, CreateAclsRequest(creations=[creation(**changes), creation()]))

    assert [each.error_code for each in response.results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert response.results[0].error_message == message
    assert len(listed(secured)) == 1


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        pytest.param({}, ["*", "ord", "orders"], id="everything"),
        pytest.param({"resource_name_filter": "orders"}, ["orders"], id="any-pattern-of-that-name"),
        pytest.param(
            {"resource_name_filter": "orders", "pattern_type_filter": PatternType.MATCH},
            ["*", "ord", "orders"],
            id="match",
        ),
        pytest.param({"pattern_type_filter": PatternType.PREFIXED}, ["ord"], id="prefixes"),
        pytest.param({"principal_filter": "User:bob"}, ["ord"], id="one-principal"),
        pytest.param({"resource_type_filter": ResourceType.GROUP}, [], id="another-type"),
    ],
)
def test_filters_match_as_in_kafka(secured: RunningNode, changes: dict[str, Any], names: list[str]) -> None:
    create(
        secured,
        creation(),
        creation(resource_name="*"),
        creation(resource_name="ord", resource_pattern_type=PatternType.PREFIXED, principal="User:bob"),
    )

    assert [name for name, _, _ in listed(secured, **changes)] == names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"resource_type_filter": 99}, "Unknown patternFilter.", id="type"),
        pytest.param({"operation": 99}, "Unknown entryFilter.", id="operation"),
    ],
)
def test_unknown_filter_is_rejected(secured: RunningNode, changes: dict[str, Any], message: str) -> None:
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ANY, **changes})])

    (result,) = ask(secured, request).filter_results

    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_entries_require_permission_on_the_cluster(world: World) -> None:
    node = world.start_node(authorizer_class_name=AUTHORIZER, super_users="User:admin")

    assert create(node, creation()) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert ask(node, DescribeAclsRequest(**ANY)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (removed,) = ask(node, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)])).filter_results
    assert removed.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("super_users", "codes", "looks"),
    [
        pytest.param("User:admin", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2, 0, id="may-not-alter"),
        pytest.param("User:ANONYMOUS", [ErrorCode.INVALID_REQUEST, ErrorCode.NONE], 1, id="may-alter"),
    ],
)
def test_broker_settings_are_validated_only_for_authorized_clients(
    world: World, super_users: str, codes: list[ErrorCode], looks: int
) -> None:
    node = world.start_node(authorizer_class_name=AUTHORIZER, super_users=super_users)
    looked_at: list[object] = []
    node.node.services.check_tls = looked_at.append
    resources = [
        AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER,
            resource_name="1",
            configs=[AlterableConfig(name=name, config_operation=0, value=value)],
        )
        for name, value in (("num.io.threads", "1000"), ("num.io.threads", "9"))
    ]

    response = ask(node, IncrementalAlterConfigsRequest(resources=resources), 1)

    assert [each.error_code for each in response.responses] == codes
    assert len(looked_at) == looks


def test_open_fetch_session_loses_partitions_without_permission(secured: RunningNode) -> None:
    admin, alice = secured.connect(), secured.connect()
    created = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
    assert not admin.ask(created, CreateTopicsResponse, 7).topics[0].error_code
    create(secured, creation())
    secured.node.connections._connections[alice.peer.connection].info.principal = "User:alice"
    partitions = [FetchPartition(partition=0, partition_max_bytes=1000)]
    begun = FetchRequest(session_epoch=0, topics=[FetchTopic(topic="orders", partitions=partitions)])
    first = alice.ask(begun, FetchResponse, 12)
    quiet = alice.ask(FetchRequest(session_id=first.session_id, session_epoch=1), FetchResponse, 12)

    ask(secured, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]))
    rejected = alice.ask(FetchRequest(session_id=first.session_id, session_epoch=2), FetchResponse, 12)

    assert first.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert quiet.responses == []
    assert rejected.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_open_fetch_session_reads_partitions_with_a_new_permission(secured: RunningNode) -> None:
    admin, alice = secured.connect(), secured.connect()
    created = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
    assert not admin.ask(created, CreateTopicsResponse, 7).topics[0].error_code
    secured.node.connections._connections[alice.peer.connection].info.principal = "User:alice"
    partitions = [FetchPartition(partition=0, partition_max_bytes=1000)]
    begun = FetchRequest(session_epoch=0, topics=[FetchTopic(topic="orders", partitions=partitions)])
    rejected = alice.ask(begun, FetchResponse, 12)
    quiet = alice.ask(FetchRequest(session_id=rejected.session_id, session_epoch=1), FetchResponse, 12)

    create(secured, creation())
    waiting = FetchRequest(session_id=rejected.session_id, session_epoch=2, max_wait_ms=60_000, min_bytes=1)
    started_ms = secured.clock.monotonic_ms()
    allowed = alice.ask(waiting, FetchResponse, 12)

    assert rejected.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert quiet.responses == []
    assert allowed.responses[0].partitions[0].high_watermark == 0
    assert secured.clock.monotonic_ms() - started_ms <= RETRY_MS + 20


@pytest.mark.parametrize(
    ("super_users", "is_followers"), [("User:admin", False), ("User:ANONYMOUS", True)], ids=["refused", "allowed"]
)
def test_followers_session_requires_cluster_action(world: World, super_users: str, is_followers: bool) -> None:
    node = world.start_node(authorizer_class_name=AUTHORIZER, super_users=super_users)
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition=0)])]

    response = ask(node, FetchRequest(replica_id=2, session_epoch=0, topics=topics), 12)

    session = node.node.services.fetch_sessions._sessions[response.session_id]
    assert session.is_followers is is_followers


@pytest.mark.parametrize(
    ("host", "written"),
    [
        pytest.param("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329", id="zeros-within"),
        pytest.param("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0", id="with-a-zone"),
    ],
)
def test_ipv6_addresses_are_written_as_in_java(world: World, host: str, written: str) -> None:
    node = world.start_node(authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true")
    codes = create(
        node,
        creation(resource_name="t", principal="User:*", host=written, operation=Operation.DESCRIBE),
        creation(resource_name="u", principal="User:*", host=host, operation=Operation.DESCRIBE),
    )
    peer = node.network.open()
    assert node.node.accepted(
        peer.connection, listener="PLAINTEXT", peer=Endpoint(host, 1), local_address=Endpoint("::1", 1)
    )
    client = Client(node, peer)

    topics = [MetadataRequestTopic(name=name) for name in ("t", "u")]
    response = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse, 9)
    client.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 3)
    node.run_until(lambda: node.node.metadata.topic(CONSUMER_OFFSETS_TOPIC) is not None)
    node.run(1_000)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    client.send(join, 3)
    node.run(1_000)
    (group,) = node.connect().ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse, 5).groups

    assert codes == [ErrorCode.NONE] * 2
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "u": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert [member.client_host for member in group.members] == [f"/{written}"]


def test_permission_is_effective_once_it_is_acknowledged(secured: RunningNode) -> None:
    authorizer = secured.node.services.authorizer

    def may_describe() -> bool:
        return authorizer.authorize("User:bob", "10.0.0.7", Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    assert not may_describe()
    create(
        secured,
        creation(
            resource_type=ResourceType.CLUSTER,
            resource_name=CLUSTER_NAME,
            principal="User:bob",
            operation=Operation.DESCRIBE,
        ),
    )
    assert may_describe()


def test_exact_filter_removes_one_entry(secured: RunningNode) -> None:
    create(secured, creation(), creation(operation=Operation.WRITE), creation(principal="User:bob"))
    exact = DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="orders",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter="User:alice",
        host_filter="*",
        operation=Operation.READ,
        permission_type=PermissionType.ALLOW,
    )

    responses = [ask(secured, DeleteAclsRequest(filters=[exact])).filter_results[0] for _ in range(2)]

    assert [len(each.matching_acls) for each in responses] == [1, 0]
    assert listed(secured) == [("orders", "User:alice", "WRITE"), ("orders", "User:bob", "READ")]
