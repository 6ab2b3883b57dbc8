"""Java's hashes and table sizes, as a JVM 17 printed them."""

import pytest

from ottla.java_hashes import buckets_of_copy, buckets_of_grown, buckets_of_sized, string_hash, uuid_hash
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


@pytest.mark.parametrize(
    ("capacity", "size", "buckets"),
    [
        (1, 1, 2),
        (2, 1, 2),
        (2, 2, 4),
        (4, 3, 4),
        (4, 4, 8),
        (12, 12, 16),
        (16, 13, 32),
        (1000, 768, 1024),
        (1000, 769, 2048),
        (1025, 1, 2048),
    ],
)
def test_tables_with_a_capacity_have_as_many_buckets_as_in_java(capacity: int, size: int, buckets: int) -> None:
    assert buckets_of_sized(capacity, size) == buckets
