"""The state of one member of the consumer protocol: what each heartbeat says, and what a response changes."""

import pytest

from ottla.client.consumer_membership import ConsumerMembership
from ottla.client.membership import JOIN_EPOCH, LEAVE_EPOCH
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

T = Uuid(b"t" * 16)


@pytest.fixture
def membership() -> ConsumerMembership:
    return ConsumerMembership(
        group_id="g", member_id="m", topics=["t"], rebalance_timeout_ms=9, server_assignor="range"
    )


def response(epoch: int, *partitions: int, has_assignment: bool = True) -> ConsumerGroupHeartbeatResponse:
    topics = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=T, partitions=list(partitions))]
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5000,
        assignment=Assignment(topic_partitions=topics if partitions else []) if has_assignment else None,
    )


def beat(membership: ConsumerMembership, received: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatRequest:
    request = membership.next_heartbeat()
    membership.on_response(request, received)
    return request


def owned_in(request: ConsumerGroupHeartbeatRequest) -> dict[Uuid, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: each.partitions for each in request.topic_partitions}


def test_first_heartbeat_joins_with_the_whole_subscription(membership: ConsumerMembership) -> None:
    request = membership.next_heartbeat()

    assert (request.member_id, request.member_epoch, request.rebalance_timeout_ms) == ("m", JOIN_EPOCH, 9)
    assert (request.subscribed_topic_names, request.server_assignor) == (["t"], "range")
    assert owned_in(request) == {}


def test_response_brings_epoch_interval_and_assignment(membership: ConsumerMembership) -> None:
    assert not membership.is_member

    beat(membership, response(3, 0, 1))

    assert membership.is_member
    assert (membership.epoch, membership.heartbeat_interval_ms) == (3, 5000)
    assert membership.assigned == {T: {0, 1}}
    assert membership.must_reconcile


def test_heartbeat_of_a_steady_member_repeats_nothing(membership: ConsumerMembership) -> None:
    beat(membership, response(3))

    request = membership.next_heartbeat()

    assert not membership.must_report
    assert (request.member_epoch, request.rebalance_timeout_ms) == (3, -1)
    assert request.subscribed_topic_names is request.server_assignor is request.topic_partitions is None


def test_owned_partitions_are_reported_once(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0, 1))
    membership.own({T: [1, 0]})

    assert not membership.must_reconcile
    assert membership.must_report
    assert owned_in(beat(membership, response(4, has_assignment=False))) == {T: [0, 1]}
    assert not membership.must_report
    assert owned_in(membership.next_heartbeat()) is None


def test_response_without_assignment_changes_none(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))
    membership.own({T: [0]})

    beat(membership, response(4, has_assignment=False))

    assert membership.assigned == membership.owned == {T: {0}}


def test_empty_assignment_revokes_all(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))
    membership.own({T: [0]})
    beat(membership, response(3))

    assert membership.must_reconcile
    membership.own({T: []})
    assert not membership.must_reconcile
    assert owned_in(membership.next_heartbeat()) == {}


def test_partitions_that_changed_during_a_heartbeat_are_reported_by_the_next_one(
    membership: ConsumerMembership,
) -> None:
    beat(membership, response(3, 0))
    request = membership.next_heartbeat()
    membership.own({T: [0]})

    membership.on_response(request, response(3, has_assignment=False))

    assert membership.must_report


def test_heartbeat_after_a_failure_repeats_everything_in_the_same_epoch(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))
    membership.own({T: [0]})
    beat(membership, response(3, has_assignment=False))
    membership.on_failure()

    request = membership.next_heartbeat()

    assert request.member_epoch == 3
    assert request.subscribed_topic_names == ["t"]
    assert owned_in(request) == {T: [0]}


def test_new_subscription_is_named_once(membership: ConsumerMembership) -> None:
    beat(membership, response(3))
    membership.subscribe(["u", "v"])

    assert beat(membership, response(4)).subscribed_topic_names == ["u", "v"]
    assert membership.next_heartbeat().subscribed_topic_names is None


def test_subscription_that_changed_during_a_heartbeat_is_named_by_the_next_one(membership: ConsumerMembership) -> None:
    request = membership.next_heartbeat()
    membership.subscribe(["u"])

    membership.on_response(request, response(3))

    assert membership.next_heartbeat().subscribed_topic_names == ["u"]


def test_fenced_member_joins_again_without_partitions(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))
    membership.own({T: [0]})
    membership.on_fenced()

    request = membership.next_heartbeat()

    assert not membership.is_member
    assert (request.member_id, request.member_epoch, owned_in(request)) == ("m", JOIN_EPOCH, {})
    assert not membership.must_reconcile


def test_partitions_that_a_fenced_member_started_are_not_owned(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))
    membership.on_fenced()
    membership.own({T: [0]})

    assert membership.owned == {}
    assert owned_in(membership.next_heartbeat()) == {}


def test_last_heartbeat_leaves(membership: ConsumerMembership) -> None:
    beat(membership, response(3, 0))

    assert membership.leave_heartbeat().member_epoch == LEAVE_EPOCH
