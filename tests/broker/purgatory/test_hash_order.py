"""Java's hash order: the orders in which a JVM 17 iterated."""

from ottla.java_hashes import buckets_of_copy, buckets_of_grown, string_hash
from ottla.purgatory.hash_order import in_hash_order, partitions_in_hash_order
from ottla.purgatory.steps import run_to_end


def test_strings_are_in_the_order_of_a_java_set() -> None:
    names = [f"member-{number * number}" for number in range(13)]

    ordered = run_to_end(in_hash_order(names, string_hash, buckets_of_grown(len(names))))

    squares = [121, 100, 144, 16, 49, 25, 36, 4, 9, 64, 81, 1, 0]
    assert ordered == [f"member-{number}" for number in squares]


def test_equal_buckets_keep_the_order_of_insertion() -> None:
    names = ["member-1", "member-2", "member-3", "zeta", "alpha", "Aa", "BB"]

    ordered = run_to_end(in_hash_order(names, string_hash, buckets_of_copy(len(names))))

    assert ordered == ["zeta", "Aa", "BB", "member-1", "member-2", "alpha", "member-3"]


def test_partitions_are_in_the_order_of_a_java_set() -> None:
    partitions = frozenset({0, 5, 16, 17, 21, 33, 48, 64, 65536, 65537, 100000, 7})

    assert run_to_end(partitions_in_hash_order(partitions)) == [0, 64, 65537, 33, 65536, 100000, 5, 7, 16, 48, 17, 21]
