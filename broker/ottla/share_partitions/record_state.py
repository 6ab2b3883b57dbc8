"""States of records in flight, one byte per record: the state, and how often the record was delivered.

While a change is written to the share coordinator, a record is in one of the PENDING states. It becomes final with the
write, or ACQUIRED again if the write fails. Every change that waits for a write starts from ACQUIRED.

A cell's three low bits are the state, the five high ones the delivery count; group.share.max.delivery.count.limit is at
most 25. Whole ranges change at once with `bytes.translate`: an acknowledgement of 10,000 single records must not take
10,000 steps of the interpreter.

Source: RecordState, InFlightState of Apache Kafka 4.3.1.
"""

import re
from functools import cache
from typing import Final

from ottla.wire.acknowledge_type import AcknowledgeType

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4
"""As in the share coordinator's records; 3, ARCHIVING, has no use without a dead letter queue."""
PENDING_AVAILABLE: Final = 3
PENDING_ACKNOWLEDGED: Final = 5
PENDING_ARCHIVED: Final = 6

COUNT_UNIT: Final = 8
COUNT_MAX: Final = 31
STATE_MASK: Final = 7

_FINAL: Final = {PENDING_AVAILABLE: AVAILABLE, PENDING_ACKNOWLEDGED: ACKNOWLEDGED, PENDING_ARCHIVED: ARCHIVED}
_PENDING_STATES: Final = frozenset(_FINAL)
_COMPLETE: Final = frozenset({ACKNOWLEDGED, ARCHIVED, PENDING_ACKNOWLEDGED, PENDING_ARCHIVED})
_TARGETS: Final = {
    AcknowledgeType.GAP: PENDING_ARCHIVED,
    AcknowledgeType.ACCEPT: PENDING_ACKNOWLEDGED,
    AcknowledgeType.RELEASE: PENDING_AVAILABLE,
    AcknowledgeType.REJECT: PENDING_ARCHIVED,
}


def cell(state: int, delivery_count: int) -> int:
    """Return a record's byte."""
    return state | min(delivery_count, COUNT_MAX) * COUNT_UNIT


def count_of(value: int) -> int:
    return value >> 3


def _table(changes: dict[int, int]) -> bytes:
    """Return a table for `bytes.translate` that replaces the state and keeps the delivery count."""
    return bytes((value & ~STATE_MASK) | changes.get(value & STATE_MASK, value & STATE_MASK) for value in range(256))


def _states_class(states: frozenset[int]) -> bytes:
    """Return a regular expression's class of the cells in one of these states."""
    return b"[" + b"".join(re.escape(bytes((value,))) for value in range(256) if value & STATE_MASK in states) + b"]"


FINISH: Final = _table(_FINAL)
"""The write succeeded."""
WRITTEN: Final = _table({**_FINAL, ACQUIRED: AVAILABLE})
"""How the share coordinator keeps a record."""
ROLL_BACK: Final = _table(dict.fromkeys(_PENDING_STATES, ACQUIRED))
"""The write failed."""
STATES: Final = bytes(value & STATE_MASK for value in range(256))
"""Leave the delivery counts out."""
IS_COMPLETE: Final = bytes(1 if value & STATE_MASK in _COMPLETE else 0 for value in range(256))
ACQUIRE: Final = bytes(
    cell(ACQUIRED, count_of(value) + 1) if value & STATE_MASK == AVAILABLE else value for value in range(256)
)
FIRST_AVAILABLE: Final = re.compile(_states_class(frozenset({AVAILABLE})), re.DOTALL)
FIRST_UNFINISHED: Final = re.compile(_states_class(frozenset(range(8)) - {ACKNOWLEDGED, ARCHIVED}), re.DOTALL)
RUNS: Final = re.compile(rb"(.)\1*", re.DOTALL)
AVAILABLE_RUNS: Final = re.compile(b"(" + _states_class(frozenset({AVAILABLE})) + rb")\1*", re.DOTALL)
ARCHIVE_AVAILABLE: Final = _table({AVAILABLE: ARCHIVED})
ARCHIVE_ACQUIRED: Final = _table({ACQUIRED: ARCHIVED})


@cache
def available_from(delivery_count: int) -> re.Pattern[bytes]:
    """Return a regular expression of cells that are available and have been delivered at least so often."""
    values = b"".join(re.escape(bytes((cell(AVAILABLE, count),))) for count in range(delivery_count, COUNT_MAX + 1))
    return re.compile(b"[" + values + b"]", re.DOTALL)


@cache
def change_table(acknowledge_type: int, delivery_count_limit: int) -> bytes:
    """Return the table that applies ``acknowledge_type`` to ACQUIRED cells, for `bytes.translate`.

    A released record that has been delivered as often as allowed is archived instead.
    """
    target = _TARGETS[AcknowledgeType(acknowledge_type)]
    table = bytearray(range(256))
    for value in range(256):
        if value & STATE_MASK == ACQUIRED:
            is_last = target == PENDING_AVAILABLE and count_of(value) >= delivery_count_limit
            table[value] = (value & ~STATE_MASK) | (PENDING_ARCHIVED if is_last else target)
    return bytes(table)


@cache
def release_table(delivery_count_limit: int) -> bytes:
    """Return the table that releases ACQUIRED cells at once, without a write to wait for."""
    return change_table(AcknowledgeType.RELEASE, delivery_count_limit).translate(FINISH)
