"""`StepBudget`: counts the work of a slice by records: one range of 4,096 may take as long as 128 of one record."""

from typing import Final

_RECORDS_PER_STEP: Final = 4_096
_RECORDS_OF_RANGE: Final = 32
"""The work for a range that does not depend on its size, counted as records."""


class StepBudget:
    """See the module."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, records: int) -> bool:
        """Note work for a range; return whether the slice is over."""
        self._spent += _RECORDS_OF_RANGE + records
        if self._spent < _RECORDS_PER_STEP:
            return False
        self._spent = 0
        return True
