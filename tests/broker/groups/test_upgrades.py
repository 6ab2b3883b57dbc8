"""Classic groups that become consumer groups, where no recording of Kafka reaches."""

from collections.abc import Callable
from typing import Any

import pytest

from group_node import subscription
from migrating_groups import MIGRATING, SESSION_MS, assignment, beat, classic_group, contents, mixed_group
from ottla.errors import ErrorCode
from ottla.groups.classic.service import PROTOCOLS_MAX
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.consumer.member import SUBSCRIBED_TOPICS_MAX
from ottla.groups.log import decode
from ottla.groups.migration.sizes import CONVERTED_IN_PLACE_MAX
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ottla.wire.messages.group_log import GroupMetadataKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> Any:
    """See `MIGRATING`."""
    return new_group_node(config=MIGRATING)


def join_with_owned(node: Any, member: str, *partitions: int) -> Any:
    """Send the JoinGroup of a cooperative member that reads partitions of topic t."""
    owned = ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=list(partitions))
    metadata = b"\0\1" + ConsumerProtocolSubscription(topics=["t"], owned_partitions=[owned]).encode(1)
    return node.call(_join_request(member, metadata), 3)


def reserve_member_id(node: Any) -> Any:
    """Send the JoinGroup of a new member, which receives its id; return the response."""
    return node.call(_join_request("", subscription("t")), 4)


def _join_request(member: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=20_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def test_upgraded_group_is_loaded_as_it_was(node: Any) -> None:
    classic_group(node, (0, 1), (2,))
    beat(node, "c1")
    before = contents(node)

    node.restart()

    assert contents(node) == before


def test_upgrade_is_one_batch(node: Any) -> None:
    classic_group(node, (0, 1), (2,))
    partition = node.groups.partition_for("g")
    count = len(node.log.batches[partition])

    beat(node, "c1")

    assert len(node.log.batches[partition]) == count + 1


def test_rejected_upgrade_leaves_the_rebalance_of_the_classic_group_alone(node: Any) -> None:
    members = classic_group(node, (0, 1), (2,))
    joining = node.join()
    node.log.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER

    rejected = beat(node, "c1")

    assert rejected.error_code == ErrorCode.NOT_COORDINATOR
    assert node.consumer_group() is None
    assert not joining.is_complete
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE
    assert node.heartbeat(members[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    node.log.append_error = ErrorCode.NONE
    node.advance(SESSION_MS)
    assert node.consumer_group() is None, "sessions of the group that was not created have no effect"


def test_group_that_cannot_be_upgraded_continues_its_first_rebalance(node: Any) -> None:
    joining = node.join()

    rejected = beat(node, "c1")

    assert rejected.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not joining.is_complete
    node.advance(1_001)
    assert joining.value.error_code == ErrorCode.NONE


def test_member_that_joins_without_the_protocol_of_the_last_generation_prevents_the_upgrade(node: Any) -> None:
    (member,) = classic_group(node, (0,), protocols={"range": ["t"], "sticky": ["t"]})
    node.join(protocols={"sticky": ["t"]})

    assert beat(node, "c1").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_cooperative_member_keeps_what_it_owns_when_its_group_has_lost_the_assignments(node: Any) -> None:
    (member,) = classic_group(node, (0, 1, 2))
    other = node.join()
    join_with_owned(node, member, 0, 1, 2)
    assert other.value.generation_id == 2
    node.join()
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE

    joined = beat(node, "c1")

    assert not joined.assignment.topic_partitions
    topic_id = node.metadata.topic_id("t")
    assert set(node.consumer_group().members[member].assigned[topic_id]) == {0, 1, 2}


def test_cooperative_member_keeps_what_its_leader_is_taking_from_it(node: Any) -> None:
    # It revokes the partition after its SyncGroup, and no other reads it before the next generation.
    (member,) = classic_group(node, (0, 1, 2))
    other = node.join()
    join_with_owned(node, member, 0, 1, 2)
    other_id = other.value.member_id
    node.sync(other_id, 2)
    node.sync(member, 2, {member: assignment(0, 1), other_id: assignment()})
    assert node.describe().group_state == ClassicGroupState.STABLE

    joined = beat(node, "c1")

    assert not joined.assignment.topic_partitions
    topic_id = node.metadata.topic_id("t")
    assert set(node.consumer_group().members[member].assigned[topic_id]) == {0, 1, 2}
    before = contents(node)
    node.restart()
    assert contents(node) == before


def test_partition_that_two_members_say_they_own_stays_with_the_one_to_which_it_is_assigned(node: Any) -> None:
    first, second = classic_group(node, (0,), (1, 2))
    join_with_owned(node, first, 0, 1, 2)
    node.join(member_id=second)
    node.sync(second, 2)
    node.sync(first, 2, {first: assignment(0), second: assignment(1)})

    beat(node, "c1")

    topic_id = node.metadata.topic_id("t")
    group = node.consumer_group()
    assert set(group.members[first].assigned[topic_id]) == {0, 2}
    assert set(group.members[second].assigned[topic_id]) == {1}


def test_group_whose_members_have_all_left_in_a_rebalance_is_upgraded_too(node: Any) -> None:
    (member,) = classic_group(node, (0, 1, 2))
    reserve_member_id(node)
    node.join(protocols={"range": ["t", "u"]}, member_id=member)
    node.leave(member)
    assert node.describe().group_state == ClassicGroupState.PREPARING_REBALANCE

    beat(node, "c1")

    before = contents(node)
    of_classic_group = [
        each for each in node.log.records() if isinstance(decode(each.key, each.value).key, GroupMetadataKey)
    ]
    assert of_classic_group[-1].value is None, "the classic group would be back when the consumer group is deleted"
    node.restart()
    assert contents(node) == before


def test_assignment_to_a_deleted_topic_is_dropped(node: Any) -> None:
    node.add_partitions("gone", range(1))
    joined = node.join()
    node.advance(501)
    member = joined.value.member_id
    node.sync(member, 1, {member: assignment(0, topic="gone")})
    node.delete_topic("gone")

    beat(node, "c1")

    assert node.consumer_group().members[member].assigned == {}


def test_large_classic_group_is_converted_by_what_was_prepared(node: Any) -> None:
    members = classic_group(node, *[()] * (CONVERTED_IN_PLACE_MAX + 1))

    joined = beat(node, "c1")

    assert joined.error_code == ErrorCode.NONE
    assert len(node.consumer_group().members) == len(members) + 1
    before = contents(node)
    node.restart()
    assert contents(node) == before


def test_members_with_many_topics_are_converted_one_at_a_time(node: Any) -> None:
    topics = [f"topic-{number}" for number in range(1_000)]
    members = classic_group(node, *[()] * 4, protocols={"range": topics})
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c1", member_epoch=0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t"]
    )

    steps = sum(1 for _ in node.groups.prepare_consumer_heartbeat(request))

    assert steps > 2 * len(members), "each member is read in one step, and its records are encoded in another"
    assert beat(node, "c1").error_code == ErrorCode.NONE
    before = contents(node)
    node.restart()
    assert contents(node) == before


def test_subscription_with_many_topics_is_decoded_in_slices(node: Any) -> None:
    beat(node, "c1")
    request = _join_request("", subscription(*[f"t{number}" for number in range(10_000)]))

    assert sum(1 for _ in node.groups.prepare_join(request)) > 100


def test_group_with_more_topics_than_a_member_may_name_is_not_converted(node: Any) -> None:
    classic_group(node, (), protocols={"range": [f"t{number}" for number in range(SUBSCRIBED_TOPICS_MAX + 1)]})

    assert beat(node, "c1").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert node.consumer_group() is None


def test_large_classic_group_that_changes_while_it_is_converted_is_converted_later(node: Any) -> None:
    members = classic_group(node, *[()] * (CONVERTED_IN_PLACE_MAX + 1))
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c1", member_epoch=0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t"]
    )
    steps = node.groups.prepare_consumer_heartbeat(request)
    next(steps)
    prepared = None
    node.leave(members[0])
    try:
        while True:
            next(steps)
    except StopIteration as end:
        prepared = end.value
    shard = node.groups._runtime.context_for("g").shard

    assert not prepared.is_of(shard.rebalancer.groups["g"])
    assert beat(node, "c1").error_code == ErrorCode.NONE


def test_reason_against_the_upgrade_of_a_large_group_is_reported(node: Any) -> None:
    count = CONVERTED_IN_PLACE_MAX + 1
    members = classic_group(node, *[(0,)] * count)

    assert beat(node, "c1").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.heartbeat(members[0], 1) is ErrorCode.NONE


def test_session_of_a_classic_member_is_its_own_on_the_next_coordinator_too(node: Any) -> None:
    member = mixed_group(node)
    node.restart()

    node.advance(SESSION_MS - 1)
    assert node.heartbeat(member, 3) is ErrorCode.REBALANCE_IN_PROGRESS, "c1 was removed after 2 s"
    node.advance(1)

    assert node.describe().members[0].member_id == member


def test_member_that_changes_to_the_consumer_protocol_needs_no_sync(node: Any) -> None:
    beat(node, "c1")
    member = node.join(rebalance_timeout_ms=1_000).value.member_id

    beat(node, member)
    for _ in range(2):
        node.advance(1_000)
        beat(node, member, 3)
        beat(node, "c1", 2)

    assert member in node.consumer_group().members


def test_member_that_joins_again_before_its_removal_is_committed_keeps_its_session(node: Any) -> None:
    member = mixed_group(node)
    beat(node, "c2")
    node.log.is_held = True
    for each in ("c1", "c2"):
        node.call(ConsumerGroupHeartbeatRequest(group_id="g", member_id=each, member_epoch=-1), 1)
    assert node.consumer_group() is None
    returning = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c1",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    node.call(returning, 1)
    node.log.commit()
    node.log.is_held = False
    assert set(node.consumer_group().members) == {"c1", member}

    node.advance(2_001)

    assert node.consumer_group() is None, "its session is over"


def test_malformed_or_too_long_subscription_is_rejected(node: Any) -> None:
    beat(node, "c1")
    many = node.join(protocols={"range": [f"t{number}" for number in range(10_001)]})

    assert many.value.error_code == ErrorCode.INVALID_REQUEST
    assert set(node.consumer_group().members) == {"c1"}


def test_member_with_too_many_protocols_is_rejected_by_groups_of_both_protocols(node: Any) -> None:
    permitted = {f"p{number}": ["t"] for number in range(PROTOCOLS_MAX)}
    excessive = {**permitted, "range": ["t"]}

    assert node.join(protocols=excessive).value.error_code == ErrorCode.INVALID_REQUEST
    beat(node, "c1")
    assert node.join(protocols=excessive).value.error_code == ErrorCode.INVALID_REQUEST
    assert set(node.consumer_group().members) == {"c1"}
    assert node.join(protocols=permitted).value.error_code == ErrorCode.NONE


def test_join_that_cannot_be_written_leaves_the_group_as_it_was(node: Any) -> None:
    beat(node, "c1")
    node.log.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER

    rejected = node.join().value

    assert (rejected.error_code, rejected.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    node.log.append_error = ErrorCode.NONE
    assert set(node.consumer_group().members) == {"c1"}


def test_join_waits_until_the_member_is_committed(node: Any) -> None:
    beat(node, "c1")
    node.log.is_held = True

    joining = node.join()

    assert not joining.is_complete
    node.log.commit()
    assert joining.value.generation_id == 3


def test_last_subscriber_of_an_expression_that_becomes_a_classic_member_removes_it(node: Any) -> None:
    beat(node, "c1", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    node.advance(100)
    assert node.consumer_group().subscriptions.resolved

    node.join(member_id="c1")

    assert not node.consumer_group().subscriptions.resolved
    before = contents(node)
    node.restart()
    assert contents(node) == before
