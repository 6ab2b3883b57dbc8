"""`TransactionState`: the states of a transactional id, and which may follow which.

Source: TransactionState of Apache Kafka 4.3.
"""

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """Values are the ids in records; `label` is the name in responses."""

    EMPTY = 0
    """No partition has been added since the producer was initialized."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The transaction is committed; its markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """All markers are written."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id has expired: its record is being removed."""
    PREPARE_EPOCH_FENCE = 7
    """In JVM Kafka, an epoch that is being fenced in memory. Here fencing and PREPARE_ABORT are one transition."""

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

_E, _O = TransactionState.EMPTY, TransactionState.ONGOING
_PC, _PA = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
_CC, _CA = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

TRANSITIONS: Final[tuple[tuple[TransactionState, TransactionState, str], ...]] = (
    *((state, _E, "InitProducerId") for state in (_E, _CC, _CA)),
    *((state, _O, "partition added") for state in (_E, _O, _CC, _CA)),
    (_O, _PC, "EndTxn (commit)"),
    (_O, _PA, "EndTxn (abort), time-out, InitProducerId"),
    *((state, _PA, "EndTxn (abort) without a partition") for state in (_E, _CC, _CA)),
    (_PC, _CC, "markers written"),
    (_PA, _CA, "markers written"),
    *((state, TransactionState.DEAD, "expired") for state in (_E, _CC, _CA)),
)
"""From, to, and by which event."""

_ALLOWED: Final = frozenset((before, after) for before, after, _ in TRANSITIONS)


def may_follow(before: TransactionState, after: TransactionState) -> bool:
    return (before, after) in _ALLOWED
