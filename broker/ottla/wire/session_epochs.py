"""Epochs of the requests of a fetch session (KIP-227) or share session (KIP-932).

Source: FetchMetadata, ShareRequestMetadata of Apache Kafka 4.3.
"""

from typing import Final

INITIAL_EPOCH: Final = 0
"""Of the request that opens a session."""
FINAL_EPOCH: Final = -1
"""Of the request that closes it."""
_EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request; the greatest one is followed by 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1
