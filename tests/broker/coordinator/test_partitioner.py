"""A group's partition is the one that Java's hash of its id gives: the numbers are a JVM's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.partitioner import partition_for_key
from ottla.java_hashes import string_hash


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition_of_50"),
    [
        pytest.param("", 0, 0, id="empty"),
        pytest.param("\0", 0, 0, id="a-zero-character"),
        pytest.param("a", 97, 47, id="one-character"),
        pytest.param("my-group", -1906497762, 12, id="negative-hash"),
        pytest.param("console-consumer-12345", 158455506, 6, id="positive-hash"),
        pytest.param("gro\u00df", 3181691, 41, id="latin-1"),
        pytest.param("\u0433\u0440\u0443\u043f\u043f\u0430", 1749938458, 8, id="cyrillic"),
        pytest.param("\u30b0\u30eb\u30fc\u30d7", 383750870, 20, id="katakana"),
        pytest.param("\U0001f600", 1772899, 49, id="astral-is-two-units"),
        pytest.param("a\U0001f600b", 57849694, 44, id="astral-in-the-middle"),
        pytest.param("\ud800", 55296, 46, id="lone-surrogate"),
        pytest.param("ottla-\u00c5\u00c4\u00d6-\u00e9", -1515397494, 44, id="mixed"),
        pytest.param("polygenelubricants", -(2**31), 0, id="the-hash-without-an-absolute-value"),
        pytest.param("DESIGNING WORKHOUSES", -(2**31), 0, id="another-of-those"),
    ],
)
def test_hash_and_partition_are_javas(group_id: str, hashed: int, partition_of_50: int) -> None:
    assert string_hash(group_id) == hashed % 2**32
    assert partition_for_key(group_id, 50) == partition_of_50


@given(st.text(st.characters(exclude_categories=[])), st.integers(1, 1000))
def test_every_id_has_a_partition(group_id: str, count: int) -> None:
    assert 0 <= partition_for_key(group_id, count) < count
    assert 0 <= string_hash(group_id) < 2**32
