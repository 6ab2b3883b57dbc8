"""`RangeAssignor`: contiguous ranges per topic, in the order of instance ids, then member ids."""

import pytest

from ottla.groups.assignors.range_assignor import RangeAssignor
from ottla.groups.assignors.types import (
    Assignment,
    GroupSpec,
    MemberAssignment,
    MemberSubscription,
    PartitionAssignorError,
    SubscriptionType,
)
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid

T = Uuid(b"t" * 16)
U = Uuid(b"u" * 16)
KIND = [SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS]


def member(
    name: str, *topics: Uuid, instance: str | None = None, assigned: MemberAssignment | None = None
) -> MemberSubscription:
    return MemberSubscription(
        member_id=name, instance_id=instance, topic_ids=frozenset(topics), assigned=assigned if assigned else {}
    )


def assign(kind: SubscriptionType, members: list[MemberSubscription], partition_counts: dict[Uuid, int]) -> Assignment:
    spec = GroupSpec(members=members, subscription_type=kind, partition_counts=partition_counts)
    return run_to_end(RangeAssignor().assign(spec))


def numbers(*partitions: int) -> frozenset[int]:
    return frozenset(partitions)


@pytest.mark.parametrize("kind", KIND)
def test_first_members_get_the_partitions_that_do_not_divide(kind: SubscriptionType) -> None:
    assigned = assign(kind, [member("b", T, U), member("a", T, U)], {T: 3, U: 1})

    assert assigned == {"a": {T: numbers(0, 1), U: numbers(0)}, "b": {T: numbers(2)}}


@pytest.mark.parametrize("kind", KIND)
def test_static_members_come_first_in_the_order_of_their_instance_ids(kind: SubscriptionType) -> None:
    members = [member("a", T), member("b", T, instance="2"), member("c", T, instance="1")]

    assigned = assign(kind, members, {T: 3})

    assert assigned == {"c": {T: numbers(0)}, "b": {T: numbers(1)}, "a": {T: numbers(2)}}


@pytest.mark.parametrize("kind", KIND)
def test_members_without_a_partition_get_an_empty_assignment(kind: SubscriptionType) -> None:
    assert assign(kind, [member("a", T), member("b", T)], {T: 1}) == {"a": {T: numbers(0)}, "b": {}}


def test_topics_are_divided_among_their_own_subscribers() -> None:
    assigned = assign(SubscriptionType.HETEROGENEOUS, [member("a", T), member("b", T, U), member("c", U)], {T: 3, U: 3})

    assert assigned == {"a": {T: numbers(0, 1)}, "b": {T: numbers(2), U: numbers(0, 1)}, "c": {U: numbers(2)}}


def test_unchanged_assignment_is_the_same_object() -> None:
    members = [member("a", T, assigned={T: numbers(0)}), member("b", T, assigned={T: numbers(2)})]

    assigned = assign(SubscriptionType.HOMOGENEOUS, members, {T: 2})

    assert assigned["a"] is members[0].assigned
    assert assigned["b"] == {T: numbers(1)}


@pytest.mark.parametrize("kind", KIND)
def test_group_without_members_has_no_assignment(kind: SubscriptionType) -> None:
    assert assign(kind, [], {T: 2}) == {}


@pytest.mark.parametrize("kind", KIND)
def test_topic_without_partition_count_is_an_error(kind: SubscriptionType) -> None:
    with pytest.raises(PartitionAssignorError):
        assign(kind, [member("a", T)], {})
