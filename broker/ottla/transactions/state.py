"""`TransactionState`: the states of a transactional id, and which may follow which.

Source: TransactionState of Apache Kafka 4.3.
"""

from collections.abc import Mapping
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

TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionState], str]] = {
    (_E, _E): "InitProducerId",
    (_E, _O): "a partition is added",
    (_O, _O): "a partition is added",
    (_O, _PC): "EndTxn to commit",
    (_O, _PA): "EndTxn to abort, InitProducerId, or the time-out",
    (_PC, _CC): "all markers are written",
    (_PA, _CA): "all markers are written",
    **{(complete, _E): "InitProducerId" for complete in (_CC, _CA)},
    **{(complete, _O): "a partition is added" for complete in (_CC, _CA)},
    **{(idle, _PA): "EndTxn to abort, before a partition is added" for idle in (_E, _CC, _CA)},
    **{(idle, TransactionState.DEAD): "the id expires" for idle in (_E, _CC, _CA)},
}
"""The event of each allowed transition."""


def may_follow(before: TransactionState, after: TransactionState) -> bool:
    return (before, after) in TRANSITIONS
