"""The partition of a record, chosen as in Java's clients, so that equal keys are in the same partition.

Source: org.apache.kafka.common.utils.Utils.murmur2, BuiltInPartitioner (Kafka 4.3).
"""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of ``data``, 0 to 2^32 - 1."""
    length = len(data)
    hashed = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition, 0 to ``partition_count`` - 1, of records with ``key``."""
    return (murmur2(key) & _POSITIVE) % partition_count
