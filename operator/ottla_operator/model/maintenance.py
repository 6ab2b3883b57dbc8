"""Maintenance windows (``maintenanceWindows``): when restarts that are not urgent may start. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from ottla_operator.model.document import Document

_MINUTE = timedelta(minutes=1)
_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
"""Whether a window ever opens does not depend on when that is asked."""
_UNREADABLE = (ValueError, KeyError, OSError)
"""Errors of a schedule, and of a time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """Opens at the minutes of ``schedule``, five fields as in cron, in ``time_zone``."""

    schedule: str
    duration: timedelta
    time_zone: str = "UTC"

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(
            schedule=document["schedule"],
            duration=timedelta(minutes=document["durationMinutes"]),
            time_zone=document.get("timeZone", "UTC"),
        )


@dataclass(frozen=True, slots=True)
class WindowState:
    """The maintenance windows of a Cluster at one moment."""

    closed: str | None = None
    """Why restarts that are not urgent have to wait; None if they need not."""
    invalid: str | None = None
    """Why a window can never open; None if each of them can."""


def window_state(windows: Sequence[MaintenanceWindow], now: str) -> WindowState:
    """Return the state of a Cluster's windows; ``now`` is RFC 3339, UTC."""
    return WindowState(closed_reason(windows, now), invalid_reason(windows))


def invalid_reason(windows: Sequence[MaintenanceWindow]) -> str | None:
    """Return which windows can never open, and why; None if all of them open at some time."""
    wrong = [problem for window in windows if (problem := _problem(window)) is not None]
    return f"{'; '.join(wrong)}; correct spec.maintenanceWindows" if wrong else None


def _problem(window: MaintenanceWindow) -> str | None:
    name = f"window {window.schedule!r} in {window.time_zone!r}"
    try:
        _around(window, _ANY_MOMENT)
    except StopIteration:
        return f"{name} never opens"
    except _UNREADABLE as error:
        return f"{name} cannot be read ({error})"
    return None


def closed_reason(windows: Sequence[MaintenanceWindow], now: str) -> str | None:
    """Return why restarts have to wait, with the time when the next window opens; None while one is open.

    Args:
        windows: those of a Cluster; none: always open. Those that can never open are left out (`invalid_reason`).
        now: RFC 3339, UTC.
    """
    if not windows:
        return None
    moment = datetime.fromisoformat(now)
    opens: list[datetime] = []
    for window in windows:
        try:
            since, following = _around(window, moment)
        except (StopIteration, *_UNREADABLE):
            continue
        if since is not None and moment - since < window.duration:
            return None
        opens.append(following)
    return (
        f"the next maintenance window opens at {min(opens).isoformat()}"
        if opens
        else "no maintenance window ever opens"
    )


def _around(window: MaintenanceWindow, moment: datetime) -> tuple[datetime | None, datetime]:
    """Return when ``window`` opened last, and when it opens next.

    Raises:
        StopIteration: it never opens, as one of February 30.
        ValueError, KeyError, OSError: the schedule or the time zone is invalid.
    """
    # Only clusters with windows need the library.
    from cronsim import CronSim, CronSimError

    local = moment.astimezone(ZoneInfo(window.time_zone))
    try:
        since = next(CronSim(window.schedule, local.replace(second=0, microsecond=0) + _MINUTE, reverse=True), None)
        return since, next(CronSim(window.schedule, local))
    except CronSimError as error:
        raise ValueError(str(error)) from error
