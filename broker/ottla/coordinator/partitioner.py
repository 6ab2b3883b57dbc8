"""The partition of an internal topic that holds a key: Java's hash of the key, so that Kafka and Ottla agree.

The key is a group id in ``__consumer_offsets``, a transactional id in ``__transaction_state``.

Source: partitionFor of GroupCoordinatorService and TransactionStateManager, Utils.abs, java.lang.String.hashCode.
"""

from struct import unpack
from typing import Final

_INT32_MIN: Final = -(2**31)


def java_string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: an int32 over the UTF-16 code units, astral characters as two of them."""
    data = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in unpack(f">{len(data) // 2}H", data):
        hashed = (31 * hashed + unit) & 0xFFFF_FFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def partition_for_key(key: str, partition_count: int) -> int:
    """Return the partition, 0 <= n < ``partition_count``; the one hash without an absolute value counts as 0."""
    hashed = java_string_hash(key)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count
