"""Consumer groups that become classic groups, where no recording of Kafka reaches; the policy."""

from collections.abc import Callable
from typing import Any

import pytest

from migrating_groups import MIGRATING, beat, classic_group, contents, mixed_group
from ottla.config.node_config import NodeConfig
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.errors import ErrorCode
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.groups import DOWNGRADE_JOB
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.log import decode, encode
from ottla.groups.migration.policy import MigrationPolicy
from ottla.groups.migration.sizes import CONVERTED_IN_PLACE_MAX
from ottla.node.coordinator_settings import group_config
from ottla.simulator.world.single_node import PROPERTIES
from ottla.wire.messages import group_log as log
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> Any:
    """See `MIGRATING`."""
    return new_group_node(config=MIGRATING)


def test_downgraded_group_is_loaded_as_a_classic_group(node: Any) -> None:
    member = mixed_group(node)
    beat(node, "c1", -1)
    generation = node.consumer_group()
    assert generation is None

    node.restart()

    assert node.consumer_group() is None
    assert [each.member_id for each in node.describe().members] == [member]


def test_rebalance_of_a_downgraded_group_continues_on_the_next_coordinator(node: Any) -> None:
    member = mixed_group(node)
    beat(node, "c1", -1)

    node.restart()

    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE
    assert node.heartbeat(member, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_of_a_downgraded_group_keeps_what_it_has_not_given_up(node: Any) -> None:
    # Kafka gives it its target, and the next member of the consumer protocol what it still reads.
    (member,) = classic_group(node, (0, 1, 2))
    beat(node, "c1")
    beat(node, "c1", -1)

    joined = beat(node, "c2")

    assert not joined.assignment.topic_partitions
    topic_id = node.metadata.topic_id("t")
    assert set(node.consumer_group().members[member].assigned[topic_id]) == {0, 1, 2}


def test_downgrade_is_one_batch(node: Any) -> None:
    mixed_group(node)
    partition = node.groups.partition_for("g")
    count = len(node.log.batches[partition])

    beat(node, "c1", -1)

    assert len(node.log.batches[partition]) == count + 1


def test_downgraded_members_keep_all_protocols_that_they_support(node: Any) -> None:
    said = {"protocols": {"range": ["t"], "roundrobin": ["t"]}}
    member = mixed_group(node, **said)
    beat(node, "c1", -1)

    other = node.join(protocols={"roundrobin": ["t"]})
    rejoined = node.join(member_id=member, **said)

    assert rejoined.value.protocol_name == "roundrobin"
    assert other.value.generation_id == rejoined.value.generation_id == 4


def test_rejected_downgrade_leaves_the_consumer_group_as_it_was(node: Any) -> None:
    member = mixed_group(node)
    before = contents(node)
    node.log.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER

    rejected = beat(node, "c1", -1)

    assert rejected.error_code == ErrorCode.NOT_COORDINATOR
    assert contents(node) == before
    assert node.heartbeat(member, 3) is ErrorCode.NONE


def test_downgrade_by_a_timeout_is_repeated_until_it_is_written(node: Any) -> None:
    mixed_group(node)
    node.log.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.advance(2_001)
    assert node.consumer_group() is not None
    node.log.append_error = ErrorCode.NONE

    node.advance(500)

    assert node.consumer_group() is None
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE


def test_downgrade_that_commits_late_stays(node: Any) -> None:
    member = mixed_group(node)
    node.log.is_held = True

    leaving = node.call(ConsumerGroupHeartbeatRequest(group_id="g", member_id="c1", member_epoch=-1), 1)
    node.advance(5_001)

    assert leaving.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.log.commit()
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE
    node.restart()
    assert [each.member_id for each in node.describe().members] == [member]


def test_static_member_that_returns_while_others_give_up_partitions_makes_the_group_rebalance(node: Any) -> None:
    # Kafka would give it a partition that the other member still reads.
    beat(node, "c1", instance_id="i1")
    member = node.join().value.member_id
    beat(node, "c1", 2, owned={"t": [0, 1, 2]})
    beat(node, "c1", 2, owned={"t": [0, 1]})
    assert node.consumer_group().state is ConsumerGroupState.RECONCILING, "the other one has not joined again"

    joined = node.join(instance="i1").value

    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE
    synced = node.sync(joined.member_id, joined.generation_id).value
    assert synced.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
    assert node.heartbeat(member, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_group_with_corrupt_metadata_of_a_classic_member_stays_a_consumer_group(node: Any) -> None:
    mixed_group(node)
    corrupt = []
    for each in node.log.records():
        record = decode(each.key, each.value)
        assert record is not None
        value = record.value
        if isinstance(value, log.ConsumerGroupMemberMetadataValue) and value.classic_member_metadata is not None:
            value.classic_member_metadata.supported_protocols[0].metadata = b"x"
            corrupt.append(encode(record))
    node.write_log("g", corrupt)
    node.restart()

    beat(node, "c1", -1)

    assert node.consumer_group().classic_count == 1
    assert len(node.consumer_group().members) == 1


def test_large_group_is_downgraded_by_a_job(node: Any) -> None:
    count = CONVERTED_IN_PLACE_MAX + 1
    members = classic_group(node, *[()] * count)
    beat(node, "c1")
    beat(node, "c1", -1)
    assert node.consumer_group().classic_count == count

    node.advance(100)

    described = node.describe()
    assert described.group_state == ClassicGroupState.PREPARING_REBALANCE
    assert {each.member_id for each in described.members} == set(members)
    node.restart()
    assert len(node.describe().members) == count


def test_group_of_members_with_many_topics_is_downgraded_by_a_job(node: Any) -> None:
    topics = [f"topic-{number}" for number in range(1_000)]
    members = classic_group(node, (), (), protocols={"range": topics})
    beat(node, "c1")

    beat(node, "c1", -1)

    assert node.consumer_group().classic_count == 2
    node.advance(100)
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE
    assert {each.member_id for each in node.describe().members} == set(members)


def test_consumer_that_joins_before_a_large_group_is_downgraded_prevents_it(node: Any) -> None:
    classic_group(node, *[()] * (CONVERTED_IN_PLACE_MAX + 1))
    beat(node, "c1")
    beat(node, "c1", -1)

    beat(node, "c2")
    node.advance(100)

    assert "c2" in node.consumer_group().members
    runtime: CoordinatorRuntime[Any] = node.groups._runtime
    assert not runtime.context_for("g").shard.consumers.jobs.is_running(DOWNGRADE_JOB, "g")


def test_group_above_the_size_of_classic_groups_stays_a_consumer_group(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(config=GroupConfig(min_session_timeout_ms=100, max_size=1, consumer_assignment_interval_ms=0))
    beat(node, "c1")
    node.join()
    node.join()

    beat(node, "c1", -1)

    assert len(node.consumer_group().members) == 2


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ("DisAbled", MigrationPolicy.DISABLED),
        ("UPGRADE", MigrationPolicy.UPGRADE),
        (None, MigrationPolicy.BIDIRECTIONAL),
    ],
)
def test_policy_is_configured_in_any_case(value: str | None, policy: MigrationPolicy) -> None:
    properties = dict(PROPERTIES)
    if value is not None:
        properties["group.consumer.migration.policy"] = value

    assert group_config(NodeConfig.from_properties(properties)).consumer_migration_policy is policy
