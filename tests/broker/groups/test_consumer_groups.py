"""Consumer groups where no recording of Kafka reaches: large groups, slices, configuration of groups, lost writes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.groups.assignors.uniform_assignor import UniformAssignor
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.groups import ASSIGNMENT_JOB
from ottla.groups.consumer.member import MemberState
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.modern.assignment import IN_PLACE_SIZE_MAX
from ottla.metadata.metadata_version import GROUP_VERSION
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord

LARGE = IN_PLACE_SIZE_MAX + 100


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> Any:
    """A node with a large topic; targets are computed without a rest."""
    node = new_group_node(config=GroupConfig(consumer_assignment_interval_ms=0))
    node.add_partitions("large", range(LARGE))
    return node


def send(node: Any, member_id: str, epoch: int = 0, **said: Any) -> Any:
    """Send a heartbeat of group g; return the delayed response."""
    owned = said.pop("owned", [] if epoch == 0 else None)
    if isinstance(owned, dict):
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=node.metadata.topic_id(topic), partitions=partitions)
            for topic, partitions in owned.items()
        ]
    fields = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"]} if epoch == 0 else {}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=owned, **{**fields, **said}
    )
    return node.call(request, 1)


def beat(node: Any, member_id: str, epoch: int = 0, **said: Any) -> Any:
    return send(node, member_id, epoch, **said).value


def partitions(response: Any) -> int:
    return sum(len(topic.partitions) for topic in response.assignment.topic_partitions)


def test_target_of_a_large_group_is_computed_between_requests(node: Any) -> None:
    joined = beat(node, "m1", subscribed_topic_names=["large"])
    assert (joined.member_epoch, partitions(joined)) == (1, 0)
    assert node.consumer_group().state is ConsumerGroupState.ASSIGNING

    node.advance(1_000)

    assert node.consumer_group().assignment_epoch == node.consumer_group().epoch
    assert partitions(beat(node, "m1", 1)) == LARGE
    assert node.consumer_group().state is ConsumerGroupState.STABLE


def test_assignment_that_fails_by_an_error_of_the_code_is_computed_again(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(UniformAssignor, "assign", lambda *_: 1 // 0)
        beat(node, "m1", subscribed_topic_names=["large"])
        with pytest.raises(ZeroDivisionError):
            node.advance(1_000)

    beat(node, "m1", 1)
    node.advance(1_000)

    assert node.consumer_group().assignment_epoch == node.consumer_group().epoch


def test_members_that_come_and_go_during_an_assignment_get_the_next_one(node: Any) -> None:
    beat(node, "m1", subscribed_topic_names=["large"])
    beat(node, "m2", subscribed_topic_names=["large"])
    node.advance(1_000)
    epochs = {name: node.consumer_group().members[name].member_epoch for name in ("m1", "m2")}
    beat(node, "m2", -1)
    beat(node, "m3", subscribed_topic_names=["large"])
    node.advance(1_000)

    assert partitions(beat(node, "m1", epochs["m1"], owned={})) + partitions(beat(node, "m3", 0)) >= LARGE // 2
    group = node.consumer_group()
    assert set(group.target) == {"m1", "m3"}
    assert sum(len(each) for target in group.target.values() for each in target.values()) == LARGE


def test_returning_static_member_ends_an_assignment_that_knows_its_old_id(node: Any) -> None:
    said = {"subscribed_topic_names": ["large"], "instance_id": "i"}
    beat(node, "m1", **said)
    node.advance(1_000)
    beat(node, "m1", 1, instance_id="i")
    beat(node, "m1", -2, instance_id="i")
    beat(node, "other", subscribed_topic_names=["large"])
    shard = node.groups._runtime.context_for("g").shard
    assert shard.consumers.jobs.is_running(ASSIGNMENT_JOB, "g")

    beat(node, "m2", **said)
    beat(node, "other", 2)
    node.advance(1_000)

    group = node.consumer_group()
    assert set(group.target) == {"m2", "other"}
    owners = [each for target in group.target.values() for each in target.get(node.metadata.topic_id("large"), ())]
    assert sorted(owners) == list(range(LARGE))


def test_assignment_interval_of_the_node_changes_while_it_runs(node: Any) -> None:
    beat(node, "m1")
    node.groups.use_config(GroupConfig(consumer_assignment_interval_ms=10_000))

    beat(node, "m2")

    group = node.consumer_group()
    assert group.assignment_epoch == group.epoch - 1
    node.advance(10_000)
    beat(node, "m2", group.members["m2"].member_epoch)
    assert group.assignment_epoch == group.epoch


def test_heartbeats_are_frequent_while_members_move_to_a_new_epoch(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(config=GroupConfig())

    joined = beat(node, "m1")
    node.advance(9_999)
    settling = beat(node, "m1", 2)
    node.advance(1)
    settled = beat(node, "m1", 2)
    beat(node, "m2")

    intervals_ms = [each.heartbeat_interval_ms for each in (joined, settling, settled, beat(node, "m1", 2))]
    assert intervals_ms == [500, 500, 5_000, 500]


def test_members_of_a_stable_group_heartbeat_as_usual_on_the_next_coordinator(node: Any) -> None:
    beat(node, "m1")
    node.restart()

    assert beat(node, "m1", 2).heartbeat_interval_ms == 5_000


@pytest.mark.parametrize(
    ("members", "config", "interval_ms"),
    [
        pytest.param(700, GroupConfig(), 700, id="the-more-members-the-longer"),
        pytest.param(1, GroupConfig(consumer_settling_heartbeat_interval_ms=0), 5_000, id="off"),
        pytest.param(
            1, GroupConfig(consumer_settling_heartbeat_interval_ms=60_000), 5_000, id="never-longer-than-usual"
        ),
    ],
)
def test_frequent_heartbeats_are_bounded(
    new_group_node: Callable[..., Any], members: int, config: GroupConfig, interval_ms: int
) -> None:
    node = new_group_node(config=config)
    for number in range(members):
        beat(node, f"m{number}")

    assert beat(node, "m0", node.consumer_group().members["m0"].member_epoch).heartbeat_interval_ms == interval_ms


def test_wall_clock_that_was_ahead_delays_no_target(new_group_node: Callable[..., Any]) -> None:
    """Found by the simulator (seed 28): the next coordinator's clock was seven minutes behind that of the former."""
    node = new_group_node(config=GroupConfig(consumer_assignment_interval_ms=1_000))
    node.clock.step_wall(3_600_000)
    beat(node, "m1")
    node.clock.step_wall(-3_600_000)

    joined = beat(node, "m2")

    group = node.consumer_group()
    assert (joined.member_epoch, group.assignment_epoch) == (group.epoch, group.epoch)


def test_deleted_group_ends_its_jobs(node: Any) -> None:
    beat(node, "m1", subscribed_topic_names=["large"])
    beat(node, "m1", -1)
    assert node.call(DeleteGroupsRequest(groups_names=["g"]), 2).value.results[0].error_code == 0

    node.advance(1_000)

    assert node.consumer_group() is None


def test_restart_in_the_middle_of_an_assignment_computes_it_again(node: Any) -> None:
    beat(node, "m1", subscribed_topic_names=["large"])
    node.restart()

    assert node.consumer_group().state is ConsumerGroupState.ASSIGNING
    beat(node, "m1", 1)
    node.advance(1_000)

    assert partitions(beat(node, "m1", 1)) == LARGE


def test_assignments_of_a_group_keep_their_interval(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(config=GroupConfig(consumer_assignment_interval_ms=1_000))
    beat(node, "m1")
    assert beat(node, "m2").member_epoch == 2

    node.advance(999)
    assert beat(node, "m2", 2).member_epoch == 2
    node.advance(1)

    assert beat(node, "m2", 2).member_epoch == 3


def set_clock_back(node: Any, milliseconds: int) -> None:
    """Elect a coordinator whose wall clock is behind that of the last one."""
    node.clock.step_wall(-milliseconds)
    node.restart()


def test_coordinator_with_a_clock_that_is_behind_searches_at_once(node: Any) -> None:
    beat(node, "m1", subscribed_topic_names=None, subscribed_topic_regex="t")
    node.advance(100)
    set_clock_back(node, 600_000)

    beat(node, "m2", subscribed_topic_names=None, subscribed_topic_regex="u")
    node.advance(100)

    assert node.consumer_group().subscriptions.resolved["u"].topics == ("u",)


def configure(node: Any, **values: str) -> None:
    node.publish(
        *(
            ConfigRecord(
                resource_type=ConfigResourceType.GROUP,
                resource_name="g",
                name=f"consumer.{name.replace('_', '.')}",
                value=value,
            )
            for name, value in values.items()
        )
    )


def test_group_has_a_session_timeout_and_heartbeat_interval_of_its_own(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(config=GroupConfig(consumer_settling_heartbeat_interval_ms=0))
    configure(node, session_timeout_ms="50000", heartbeat_interval_ms="6000")

    joined = beat(node, "m1")
    node.advance(49_999)
    assert node.consumer_group().members

    node.advance(1)
    assert not node.consumer_group().members
    assert (joined.error_code, joined.heartbeat_interval_ms) == (ErrorCode.NONE, 6_000)


def test_assignor_that_another_implementation_was_given_counts_as_the_default(node: Any) -> None:
    beat(node, "m1")
    group = node.consumer_group()
    group.put_member(replace(group.members["m1"], server_assignor="com.example.Assignor"))

    joined = beat(node, "m2")

    assert (joined.member_epoch, group.assignment_epoch) == (group.epoch, group.epoch)


@pytest.mark.parametrize(
    ("value", "timeout_ms"), [("1", 45_000), ("999999", 60_000), ("x", 45_000), (" +50000 ", 50_000)]
)
def test_value_of_a_group_stays_within_the_nodes_bounds(node: Any, value: str, timeout_ms: int) -> None:
    configure(node, session_timeout_ms=value)
    beat(node, "m1")

    node.advance(timeout_ms - 1)
    assert node.consumer_group().members
    node.advance(1)

    assert not node.consumer_group().members


def test_rejected_write_leaves_the_group_as_it_was(node: Any) -> None:
    beat(node, "m1")
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    rejected = beat(node, "m2")

    assert rejected.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(node.consumer_group().members) == {"m1"}
    node.log.append_error = ErrorCode.NONE
    assert beat(node, "m2").member_epoch == 3


def test_removal_that_cannot_be_written_is_repeated(node: Any) -> None:
    beat(node, "m1")
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(60_000)
    assert node.consumer_group().members
    node.log.append_error = ErrorCode.NONE

    node.advance(500)

    assert not node.consumer_group().members


def test_member_whose_leave_cannot_be_written_keeps_its_session(node: Any) -> None:
    beat(node, "m1")
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    left = beat(node, "m1", -1)
    node.log.append_error = ErrorCode.NONE
    assert left.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.consumer_group().members

    node.advance(45_000)

    assert not node.consumer_group().members


def test_assignment_of_which_a_batch_is_rejected_is_computed_again(node: Any) -> None:
    for number in range(IN_PLACE_SIZE_MAX + 1):
        beat(node, f"m{number}", subscribed_topic_names=["large"])
    node.advance(1_000)
    beat(node, "late", subscribed_topic_names=["large"])
    group, append = node.consumer_group(), node.log.append
    batches: list[int] = []

    def reject_second(*arguments: Any, **more: Any) -> Any:
        batches.append(1)
        node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS if len(batches) == 2 else ErrorCode.NONE
        return append(*arguments, **more)

    node.log.append = reject_second
    node.advance(1_000)
    assert group.assignment_epoch == group.epoch - 1
    node.log.append = append
    node.log.append_error = ErrorCode.NONE

    beat(node, "late", group.members["late"].member_epoch)
    node.advance(1_000)

    assert group.assignment_epoch == group.epoch
    owners = [each for target in group.target.values() for each in target.get(node.metadata.topic_id("large"), ())]
    assert sorted(owners) == list(range(LARGE))


def test_response_waits_until_its_records_are_committed(node: Any) -> None:
    node.log.is_held = True

    joining = send(node, "m1")

    assert not joining.is_complete
    node.log.commit()
    assert joining.value.member_epoch == 2


@pytest.mark.parametrize("version", [0, 1])
def test_protocol_that_is_off_is_unsupported(node: Any, version: int) -> None:
    node.publish(FeatureLevelRecord(name=GROUP_VERSION, feature_level=0))

    heartbeat = node.call(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), version).value
    described = node.call(ConsumerGroupDescribeRequest(group_ids=["g"]), version).value

    assert heartbeat.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [group.error_code for group in described.groups] == [ErrorCode.UNSUPPORTED_VERSION]


def test_protocol_that_is_not_configured_is_unsupported(node: Any) -> None:
    node.node_config.group_coordinator_rebalance_protocols = ("classic",)

    assert beat(node, "m1").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_member_that_names_too_many_topics_is_rejected(node: Any) -> None:
    names = [f"topic-{number}" for number in range(10_001)]

    assert beat(node, "m1", subscribed_topic_names=names).error_code == ErrorCode.INVALID_REQUEST
    assert beat(node, "m1", subscribed_topic_names=names[1:]).error_code == ErrorCode.NONE


def test_names_are_stored_once_and_sorted(node: Any) -> None:
    beat(node, "m1", subscribed_topic_names=["u", "t", "u"])

    assert node.consumer_group().members["m1"].subscribed_topic_names == ("t", "u")


def test_partition_is_not_assigned_until_its_owner_has_revoked_it(node: Any) -> None:
    beat(node, "m1")
    beat(node, "m2")
    assert beat(node, "m1", 2).assignment is not None
    assert node.consumer_group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS

    waiting = beat(node, "m2", 3)

    assert waiting.assignment is None
    assert node.consumer_group().members["m2"].state is MemberState.UNRELEASED_PARTITIONS
