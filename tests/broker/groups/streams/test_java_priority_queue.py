"""`JavaPriorityQueue`: the smallest key first, and equal keys in Java's order."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.streams.assignors.java_priority_queue import JavaPriorityQueue


def polled(queue: JavaPriorityQueue[int]) -> list[int]:
    return [queue.poll() for _ in range(len(queue))]


def test_equal_keys_come_in_the_order_of_java() -> None:
    queue: JavaPriorityQueue[int] = JavaPriorityQueue()
    for number in range(10):
        queue.add(0.0, number)

    # Printed by JShell 17 for PriorityQueue<int[]> with a comparator that finds all items equal.
    assert polled(queue) == [0, 9, 8, 7, 6, 5, 4, 3, 2, 1]


@given(st.lists(st.integers(0, 9)))
def test_items_come_by_key(keys: list[int]) -> None:
    queue: JavaPriorityQueue[int] = JavaPriorityQueue()
    for key in keys:
        queue.add(key, key)

    assert polled(queue) == sorted(keys)
