"""`UniformAssignor`: balanced, sticky, in slices; its exact results are compared with Kafka's elsewhere."""

import random

import pytest

from assignor_cases import ChangingGroup, Result, assign
from ottla.groups.assignors.types import (
    Assignment,
    GroupSpec,
    MemberAssignment,
    MemberSubscription,
    PartitionAssignorError,
    SubscriptionType,
)
from ottla.groups.assignors.uniform_assignor import UniformAssignor
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid

T = Uuid(b"t" * 16)
U = Uuid(b"u" * 16)
KIND = list(SubscriptionType)


def member(name: str, *topics: Uuid, assigned: MemberAssignment | None = None) -> MemberSubscription:
    return MemberSubscription(member_id=name, instance_id=None, topic_ids=frozenset(topics), assigned=assigned or {})


def spec(kind: SubscriptionType, members: list[MemberSubscription], partition_counts: dict[Uuid, int]) -> GroupSpec:
    return GroupSpec(members=members, subscription_type=kind, partition_counts=partition_counts)


def assigned_to(
    kind: SubscriptionType, members: list[MemberSubscription], partition_counts: dict[Uuid, int]
) -> Assignment:
    return run_to_end(UniformAssignor().assign(spec(kind, members, partition_counts)))


def pairs(result: Result) -> list[tuple[str, int]]:
    return [(topic, each) for assigned in result for topic, partitions in assigned.items() for each in partitions]


@pytest.mark.parametrize("kind", KIND)
def test_new_member_takes_only_what_balances(kind: SubscriptionType) -> None:
    first = member("a", T, assigned={T: frozenset({0, 1})})
    second = member("b", T, assigned={T: frozenset({2, 3})})

    assigned = assigned_to(kind, [first, second, member("c", T)], {T: 4})

    assert sorted(len(assigned[name].get(T, ())) for name in "abc") == [1, 1, 2]
    assert assigned["a"].get(T, frozenset()) <= {0, 1}
    assert assigned["b"].get(T, frozenset()) <= {2, 3}


@pytest.mark.parametrize("kind", KIND)
def test_unchanged_assignment_is_the_same_object(kind: SubscriptionType) -> None:
    members = [member("a", T, assigned={T: frozenset({0})}), member("b", T, assigned={T: frozenset({1})})]

    assigned = assigned_to(kind, members, {T: 2})

    assert all(assigned[each.member_id] is each.assigned for each in members)


@pytest.mark.parametrize("kind", KIND)
def test_partitions_of_topics_that_are_no_longer_subscribed_are_revoked(kind: SubscriptionType) -> None:
    members = [member("a", T, assigned={T: frozenset({0}), U: frozenset({0})})]

    assert assigned_to(kind, members, {T: 1}) == {"a": {T: frozenset({0})}}


@pytest.mark.parametrize("kind", KIND)
def test_members_without_subscriptions_get_empty_assignments(kind: SubscriptionType) -> None:
    members = [member("a", assigned={T: frozenset({0})}), member("b")]

    assert assigned_to(kind, members, {}) == {"a": {}, "b": {}}


@pytest.mark.parametrize("kind", KIND)
def test_group_without_members_has_no_assignment(kind: SubscriptionType) -> None:
    assert assigned_to(kind, [], {T: 1}) == {}


@pytest.mark.parametrize("kind", KIND)
def test_topic_without_partition_count_is_an_error(kind: SubscriptionType) -> None:
    with pytest.raises(PartitionAssignorError):
        assigned_to(kind, [member("a", T)], {})


@pytest.mark.parametrize("kind", KIND)
def test_owned_partition_that_does_not_exist_is_an_error(kind: SubscriptionType) -> None:
    members = [member("a", T, assigned={T: frozenset({7})}), member("b", T)]

    with pytest.raises(PartitionAssignorError):
        assigned_to(kind, members, {T: 2})


def test_moves_stop_where_overlapping_subscriptions_do_not_allow_balance() -> None:
    members = [member("a", T), member("b", T, U), member("c", U)]

    assigned = assigned_to(SubscriptionType.HETEROGENEOUS, members, {T: 2, U: 10})

    assert {name: sum(map(len, each.values())) for name, each in assigned.items()} == {"a": 2, "b": 5, "c": 5}


def test_every_subscribed_partition_has_one_owner_that_subscribes_to_it() -> None:
    source = random.Random(1)
    for _ in range(60):
        group = ChangingGroup(source, members_max=12, topics_max=6, partitions_max=20)
        for case in group.steps(5):
            result = assign(case)
            subscribed = {topic for _, _, topics, _ in case["members"] for topic in topics}
            every = {(str(topic), each) for topic in subscribed for each in range(case["topics"][topic][1])}
            assert sorted(pairs(result)) == sorted(every)
            for (_, _, topics, _), assigned in zip(case["members"], result, strict=True):
                assert set(assigned) <= {str(topic) for topic in topics}


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize(("count", "slices_min"), [(1, 20), (10, 20), (1_000, 40)])
def test_large_group_is_assigned_in_many_slices(kind: SubscriptionType, count: int, slices_min: int) -> None:
    members = [member(f"consumer-{number}", T, U) for number in range(count)]
    steps = UniformAssignor().assign(spec(kind, members, {T: 5_000, U: 5_000}))

    slices = sum(1 for _ in steps)

    assert slices >= slices_min
