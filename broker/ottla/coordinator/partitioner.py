"""The partition of an internal topic that holds a key: Java's hash of the key, so that Kafka and Ottla agree.

The key is a group id in ``__consumer_offsets``, a transactional id in ``__transaction_state``.

Source: partitionFor of GroupCoordinatorService and TransactionStateManager, Utils.abs, java.lang.String.hashCode.
"""

from functools import lru_cache
from typing import Final

from ottla.java_hashes import string_hash

_WITHOUT_ABSOLUTE_VALUE: Final = 2**31
"""The smallest int32 of Java, as an unsigned number."""
_KEPT_LENGTH_MAX: Final = 128
_kept_hash = lru_cache(maxsize=16_384)(string_hash)
"""Each heartbeat and commit has the key of its group, which takes 2 us to hash."""


def partition_for_key(key: str, partition_count: int) -> int:
    """Return the partition, 0 <= n < ``partition_count``."""
    hashed = _kept_hash if len(key) <= _KEPT_LENGTH_MAX else string_hash
    return partition_for_hash(hashed(key), partition_count)


def partition_for_hash(code: int, partition_count: int) -> int:
    """Return the partition for `string_hash` of a key; the one hash without an absolute value counts as 0."""
    return 0 if code == _WITHOUT_ABSOLUTE_VALUE else min(code, 2**32 - code) % partition_count
