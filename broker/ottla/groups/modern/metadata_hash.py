"""The hash of the topics that a group subscribes to: it changes when a topic appears, grows, moves or goes.

Kafka stores it with the group's epoch, so both compute the same from the same metadata: XXH3-64 without a seed over
little-endian integers, and strings as UTF-16 (little-endian) followed by the number of their code units (int32).

Source: Utils.computeTopicHash, Utils.computeGroupHash of Apache Kafka 4.3; HashStream64.putString of hash4j.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

import xxhash

from ottla.java_strings import string_length
from ottla.metadata.topics import PartitionRegistration, TopicImage

_MAGIC: Final = b"\0"
_INT32: Final = Struct("<i")
_INT64: Final = Struct("<q")
_UUID_HALVES: Final = Struct(">qq")
_LITTLE_ENDIAN_HALVES: Final = Struct("<qq")


def topic_hash(topic: TopicImage, racks_of: Callable[[PartitionRegistration], list[str]]) -> int:
    """Return the hash of one topic as a signed 64-bit integer; ``racks_of`` the replicas, one each that has any."""
    head = [
        _MAGIC,
        _LITTLE_ENDIAN_HALVES.pack(*_UUID_HALVES.unpack(topic.topic_id)),
        _string(topic.name),
        _INT32.pack(len(topic.partitions)),
    ]
    racks: dict[tuple[int, ...], bytes] = {}
    parts: list[bytes] = []
    for partition in range(len(topic.partitions)):
        registration = topic.partitions[partition]
        encoded = racks.get(registration.replicas)
        if encoded is None:
            names = sorted(racks_of(registration))
            encoded = b"".join(_INT32.pack(string_length(name)) + _string(name) for name in names)
            racks[registration.replicas] = encoded
        parts.append(_INT32.pack(partition) + encoded)
    return _signed(xxhash.xxh3_64_intdigest(b"".join(head + parts)))


def group_hash(hashes: Iterable[int]) -> int:
    """Return the hash of the topics with these hashes, in the order of their names; 0 for none."""
    data = b"".join(map(_INT64.pack, hashes))
    return _signed(xxhash.xxh3_64_intdigest(data)) if data else 0


def _string(text: str) -> bytes:
    data = text.encode("utf-16-le", "surrogatepass")
    return data + _INT32.pack(len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
