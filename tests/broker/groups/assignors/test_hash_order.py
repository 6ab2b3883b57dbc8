"""Java's hash order: the hashes, table sizes and iteration orders that a JVM 17 printed."""

import pytest

from ottla.groups.assignors.hash_order import (
    buckets_of_copy,
    buckets_of_grown,
    in_hash_order,
    partitions_in_hash_order,
    string_hash,
    uuid_hash,
)
from ottla.purgatory.steps import run_to_end
from ottla.types import parse_uuid


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("member-1", -649440834, id="ascii"),
        pytest.param("ščř€😀", 1784671458, id="surrogates"),
    ],
)
def test_strings_hash_as_in_java(text: str, code: int) -> None:
    assert string_hash(text) == code % 2**32


@pytest.mark.parametrize(("text", "code"), [("DdXEiWvPQ-6ZxYVC9fX8mQ", 170589884), ("_____wAAAAD_____AAAAAA", 0)])
def test_uuids_hash_as_in_java(text: str, code: int) -> None:
    assert uuid_hash(parse_uuid(text)) == code


@pytest.mark.parametrize(
    ("size", "grown", "copied"),
    [
        (0, 16, 16),
        (11, 16, 16),
        (12, 16, 32),
        (13, 32, 32),
        (23, 32, 32),
        (24, 32, 64),
        (25, 64, 64),
        (48, 64, 128),
        (49, 128, 128),
        (193, 512, 512),
        (1000, 2048, 2048),
    ],
)
def test_tables_have_as_many_buckets_as_in_java(size: int, grown: int, copied: int) -> None:
    assert (buckets_of_grown(size), buckets_of_copy(size)) == (grown, copied)


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
