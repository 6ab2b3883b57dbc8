"""Keys have the same partition as with Java's producers (values of Utils.murmur2 in Kafka 4.3.1)."""

import pytest

from ottla.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        pytest.param(b"21", -973932308, id="two-bytes"),
        pytest.param(b"foobar", -790332482, id="six-bytes"),
        pytest.param(b"a-little-bit-long-string", -985981536, id="whole-words"),
        pytest.param(b"a-little-bit-longer-string", -1486304829, id="two-left-over"),
        pytest.param(b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, id="long"),
        pytest.param(b"abc", 479470107, id="three-left-over"),
    ],
)
def test_hash_is_javas(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("count", [1, 3, 50])
def test_partition_is_within_the_topic(count: int) -> None:
    assert {partition_for_key(b"%d" % key, count) for key in range(1000)} == set(range(count))
