"""`SimpleAssignor`: initialized partitions have members, and members are even (tests/interop: as those of Kafka)."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.assignors.simple_assignor import SimpleAssignor, desired_counts
from ottla.groups.assignors.types import Assignment, GroupSpec, MemberSubscription, SubscriptionType
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid

TOPIC = Uuid(b"t" * 16)


def assign(members: int, partitions: int, initialized: frozenset[int], last: Assignment | None = None) -> Assignment:
    spec = GroupSpec(
        members=[
            MemberSubscription(
                member_id=f"m{number}",
                instance_id=None,
                topic_ids=frozenset({TOPIC}),
                assigned=(last or {}).get(f"m{number}", {}),
            )
            for number in range(members)
        ],
        subscription_type=SubscriptionType.HOMOGENEOUS,
        partition_counts={TOPIC: partitions},
        assignable={TOPIC: initialized},
    )
    return run_to_end(SimpleAssignor().assign(spec))


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_every_initialized_partition_has_members_as_even_as_possible(
    members: int, partitions: int, data: st.DataObject
) -> None:
    initialized = data.draw(st.frozensets(st.integers(0, partitions - 1)))

    assignment = assign(members, partitions, initialized)

    owned = [assignment[f"m{number}"].get(TOPIC, frozenset()) for number in range(members)]
    assert frozenset().union(*owned) == initialized
    counts = [len(each) for each in owned]
    assert max(counts) - min(counts) <= 1


def test_assignment_that_is_even_stays() -> None:
    last = assign(3, 7, frozenset(range(7)))

    assert assign(3, 7, frozenset(range(7)), last) == last


def test_more_members_than_partitions_share_them() -> None:
    sharing, desired = desired_counts(5, 2)

    assert (sharing, sorted(desired)) == (3, [1, 1, 1, 1, 2])
