"""The partition of an internal topic that holds a key: Java's hash of the key, so that Kafka and Ottla agree.

The key is a group id in ``__consumer_offsets``, a transactional id in ``__transaction_state``.

Source: partitionFor of GroupCoordinatorService and TransactionStateManager, Utils.abs, java.lang.String.hashCode.
"""

from typing import Final

from ottla.java_hashes import string_hash

_INT32_MIN: Final = 2**31
"""Of Java, as an unsigned number."""


def partition_for_key(key: str, partition_count: int) -> int:
    """Return the partition, 0 <= n < ``partition_count``; the one hash without an absolute value counts as 0."""
    code = string_hash(key)
    if code == _INT32_MIN:
        return 0
    return (code if code < _INT32_MIN else 2**32 - code) % partition_count
