"""The next step of one member: every state, with and without revoked and unreleased partitions."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.reconciliation import Reconciliation
from ottla.groups.consumer.records import with_current_assignment
from ottla.types import Uuid
from ottla.wire.messages.group_log import ConsumerGroupCurrentMemberAssignmentValue

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def step(member: ConsumerMember, **said: Any) -> ConsumerMember:
    """Return the member after a heartbeat; ``foreign`` are partitions of T that others own."""
    foreign = said.pop("foreign", ())
    values: dict[str, Any] = {
        "target_epoch": 11,
        "target": {},
        "is_owned": lambda topic_id, partition: topic_id == T and partition in foreign,
        "owned": None,
        "subscribed_topic_ids": frozenset({T, U}),
        **said,
    }
    return Reconciliation(**values).next_step(member)


def member(state: MemberState = STABLE, epoch: int = 10, **said: Any) -> ConsumerMember:
    return ConsumerMember(member_id="m", member_epoch=epoch, previous_member_epoch=epoch, state=state, **said)


def shown(after: ConsumerMember) -> tuple[Any, ...]:
    return after.state, after.member_epoch, dict(after.assigned), dict(after.pending_revocation)


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        pytest.param(
            member(epoch=11, assigned={T: {1: 10}}),
            {"target": {T: frozenset({1})}},
            (STABLE, 11, {T: {1: 10}}, {}),
            id="reconciled-member-stays",
        ),
        pytest.param(
            member(assigned={T: {1: 10}}),
            {"target": {T: frozenset({1})}},
            (STABLE, 11, {T: {1: 10}}, {}),
            id="same-partitions-in-a-new-epoch",
        ),
        pytest.param(
            member(assigned={T: {1: 10}}),
            {"target": {T: frozenset({1, 2})}},
            (STABLE, 11, {T: {1: 10, 2: 11}}, {}),
            id="free-partition-is-added-with-the-new-epoch",
        ),
        pytest.param(
            member(assigned={T: {1: 10}}),
            {"target": {T: frozenset({1, 2, 3})}, "foreign": (2,)},
            (UNRELEASED, 11, {T: {1: 10, 3: 11}}, {}),
            id="free-partition-is-added-and-the-other-awaited",
        ),
        pytest.param(
            member(assigned={T: {1: 10}}),
            {"target": {T: frozenset({1, 2})}, "foreign": (2,)},
            (UNRELEASED, 11, {T: {1: 10}}, {}),
            id="partition-of-another-is-awaited",
        ),
        pytest.param(
            member(assigned={T: {1: 10, 2: 9}}),
            {"target": {T: frozenset({2, 3})}},
            (UNREVOKED, 10, {T: {2: 9}}, {T: {1: 10}}),
            id="revocation-comes-first-and-keeps-the-epoch",
        ),
        pytest.param(
            member(assigned={T: {1: 10, 2: 9}}),
            {"target": {T: frozenset({2, 3})}, "owned": {T: [2]}},
            (STABLE, 11, {T: {2: 9, 3: 11}}, {}),
            id="what-the-member-does-not-own-is-revoked-already",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({2})}},
            (UNREVOKED, 10, {T: {2: 9}}, {T: {1: 10}}),
            id="heartbeat-without-owned-partitions-revokes-nothing",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({2})}, "owned": {T: [1, 2]}},
            (UNREVOKED, 10, {T: {2: 9}}, {T: {1: 10}}),
            id="member-still-owns-what-it-is-to-revoke",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({2, 3})}, "owned": {T: [2]}},
            (STABLE, 11, {T: {2: 9, 3: 11}}, {}),
            id="revoked-and-all-of-the-target-is-free",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({2, 3})}, "owned": {T: [2]}, "foreign": (3,)},
            (UNRELEASED, 11, {T: {2: 9}}, {}),
            id="revoked-and-others-own-some-of-the-target",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9, 4: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({2})}, "owned": {T: [2, 4]}},
            (UNREVOKED, 10, {T: {2: 9}}, {T: {4: 9}}),
            id="newer-target-takes-more-away",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}}, pending_revocation={T: {1: 10}}),
            {"target": {T: frozenset({1, 2})}, "owned": {T: [2]}, "foreign": (1,)},
            (STABLE, 11, {T: {2: 9, 1: 11}}, {}),
            id="newer-target-gives-the-revoked-partition-back",
        ),
        pytest.param(
            member(UNRELEASED, epoch=11, assigned={T: {1: 10}}),
            {"target": {T: frozenset({1, 2})}, "foreign": (2,)},
            (UNRELEASED, 11, {T: {1: 10}}, {}),
            id="others-have-not-revoked-yet",
        ),
        pytest.param(
            member(UNRELEASED, epoch=11, assigned={T: {1: 10}}),
            {"target": {T: frozenset({1, 2})}},
            (STABLE, 11, {T: {1: 10, 2: 11}}, {}),
            id="others-have-revoked",
        ),
        pytest.param(
            member(UNRELEASED, epoch=10, assigned={T: {1: 10}}),
            {"target": {T: frozenset({2})}, "foreign": (2,)},
            (UNREVOKED, 10, {}, {T: {1: 10}}),
            id="newer-target-takes-away-while-waiting",
        ),
        pytest.param(
            member(epoch=11, assigned={T: {1: 10}, U: {0: 10}}),
            {
                "target": {T: frozenset({1}), U: frozenset({0})},
                "subscribed_topic_ids": frozenset({T}),
                "has_subscription_changed": True,
            },
            (UNREVOKED, 11, {T: {1: 10}}, {U: {0: 10}}),
            id="unsubscribed-topic-is-revoked-at-once",
        ),
        pytest.param(
            member(epoch=11, assigned={T: {1: 10}, U: {0: 10}}),
            {
                "target": {T: frozenset({1}), U: frozenset({0})},
                "subscribed_topic_ids": frozenset({T}),
                "has_subscription_changed": True,
                "owned": {T: [1]},
            },
            (STABLE, 11, {T: {1: 10}}, {}),
            id="unsubscribed-topic-that-is-not-owned-is-gone",
        ),
        pytest.param(
            member(UNREVOKED, assigned={T: {2: 9}, U: {0: 9}}, pending_revocation={T: {1: 10}}),
            {
                "target": {},
                "subscribed_topic_ids": frozenset({T}),
                "has_subscription_changed": True,
                "owned": {T: [1, 2], U: [0]},
            },
            (UNREVOKED, 10, {T: {2: 9}}, {T: {1: 10}, U: {0: 9}}),
            id="unsubscribed-topic-joins-what-is-being-revoked",
        ),
        pytest.param(
            member(assigned={U: {0: 10}}),
            {"target": {U: frozenset({0})}, "subscribed_topic_ids": frozenset({T}), "owned": {}},
            (STABLE, 11, {}, {}),
            id="target-of-an-unsubscribed-topic-does-not-count",
        ),
        pytest.param(
            member(MemberState.UNKNOWN, epoch=10, assigned={T: {1: 10}}),
            {"target": {T: frozenset({1})}, "owned": {}},
            (STABLE, 11, {T: {1: 10}}, {}),
            id="state-of-a-later-release-without-partitions",
        ),
    ],
)
def test_member_takes_its_next_step(before: ConsumerMember, said: dict[str, Any], after: tuple[Any, ...]) -> None:
    assert shown(step(before, **said)) == after


def test_unchanged_member_is_the_same_object() -> None:
    before = member(epoch=11, assigned={T: {1: 10}})

    assert step(before, target={T: frozenset({1})}) is before
    assert step(before, target={T: frozenset({1})}, has_subscription_changed=True) is before


def test_previous_epoch_is_the_one_before_the_step() -> None:
    after = step(replace(member(), previous_member_epoch=3))

    assert (after.member_epoch, after.previous_member_epoch) == (11, 10)


@pytest.mark.parametrize("owned", [None, {T: [1]}], ids=["not-reported", "some"])
def test_member_in_a_state_of_a_later_release_is_fenced(owned: Any) -> None:
    with pytest.raises(KafkaError) as raised:
        step(member(MemberState.UNKNOWN), owned=owned)

    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_state_that_a_later_release_has_recorded_is_unknown() -> None:
    assert (
        with_current_assignment(member(), ConsumerGroupCurrentMemberAssignmentValue(state=99)).state
        is MemberState.UNKNOWN
    )
