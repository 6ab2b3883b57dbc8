"""How long Users delay the next phase of an authority, pure and bounded."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from ottla_operator.model.timestamps import instant, timestamp

_PARTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWait:
    """The part of the bound that has passed in the present phase, as recorded in the authority's Secret.

    It is counted in quarters, each of which ends with an observation: an operator that did not run for days updated no
    User meanwhile, so these days count as one quarter.
    """

    at: str = ""
    """RFC 3339: when the present quarter began; empty before the first one."""
    quarters: int = 0
    """The number of quarters that are over."""

    @property
    def is_over(self) -> bool:
        return self.quarters >= _PARTS

    def advance(self, now: datetime, bound: timedelta) -> "UserWait":
        """Return the wait as of ``now``: itself until a quarter of ``bound`` is over."""
        if self.is_over:
            return self
        if not self.at or instant(self.at) > now:
            # After the clock jumped back, the quarter begins again.
            return replace(self, at=timestamp(now))
        if now < instant(self.at) + bound / _PARTS:
            return self
        return UserWait(at=timestamp(now), quarters=self.quarters + 1)

    def waited(self, now: datetime, bound: timedelta) -> timedelta:
        """Return how long the wait has been until ``now``, as far as it counts."""
        return self.quarters * bound / _PARTS + (now - instant(self.at))

    def quarter_ends_at(self, bound: timedelta) -> str:
        """Return when the present quarter is over, RFC 3339: it takes an observation then."""
        return timestamp(instant(self.at) + timedelta(seconds=ceil(bound.total_seconds() / _PARTS)))

    def ends_at(self, bound: timedelta) -> str:
        """Return when the wait is over, RFC 3339, if an operator runs until then."""
        return timestamp(instant(self.at) + (_PARTS - self.quarters) * bound / _PARTS)
