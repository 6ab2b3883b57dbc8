"""Ranges: every partition is assigned once, in runs whose lengths differ by at most one."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.assignor import assign_ranges
from ottla.types import TopicPartition


def test_first_members_get_one_more() -> None:
    assigned = assign_ranges({"b": ["t"], "a": ["t"]}, {"t": 3})

    assert assigned == {"a": [TopicPartition("t", 0), TopicPartition("t", 1)], "b": [TopicPartition("t", 2)]}


def test_only_subscribers_get_a_topic() -> None:
    assigned = assign_ranges({"a": ["t"], "b": ["u"]}, {"t": 1, "u": 1, "v": 1})

    assert assigned == {"a": [TopicPartition("t", 0)], "b": [TopicPartition("u", 0)]}


def test_missing_topic_is_not_assigned() -> None:
    assert assign_ranges({"a": ["gone"]}, {}) == {"a": []}


@given(st.integers(1, 20), st.integers(0, 50))
def test_every_partition_is_assigned_once_and_evenly(member_count: int, partition_count: int) -> None:
    members = {f"m{number:02}": ["t"] for number in range(member_count)}

    assigned = assign_ranges(members, {"t": partition_count})

    given_out = sorted(partition for partitions in assigned.values() for partition in partitions)
    lengths = [len(partitions) for partitions in assigned.values()]
    assert given_out == [TopicPartition("t", number) for number in range(partition_count)]
    assert max(lengths) - min(lengths) <= 1
