"""Maintenance windows (``maintenanceWindows``): when restarts that are not urgent may start. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from ottla_operator.model.document import Document

_MINUTE = timedelta(minutes=1)


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


def closed_reason(windows: Sequence[MaintenanceWindow], now: str) -> str | None:
    """Return why restarts have to wait, with the time when the next window opens; None while one is open.

    Args:
        windows: those of a Cluster; none: always open.
        now: RFC 3339, UTC.
    """
    if not windows:
        return None
    moment = datetime.fromisoformat(now)
    opens: list[datetime] = []
    wrong: list[str] = []
    for window in windows:
        try:
            since, following = _around(window, moment)
        except (ValueError, KeyError, OSError, StopIteration) as error:
            wrong.append(f"window {window.schedule!r} in {window.time_zone} cannot be read ({error})")
            continue
        if since is not None and moment - since < window.duration:
            return None
        opens.append(following)
    if not opens:
        return f"{'; '.join(wrong)}; correct spec.maintenanceWindows"
    return "; ".join((f"the next maintenance window opens at {min(opens).isoformat()}", *wrong))


def _around(window: MaintenanceWindow, moment: datetime) -> tuple[datetime | None, datetime]:
    """Return when ``window`` opened last, and when it opens next.

    Raises:
        ValueError, KeyError, OSError, StopIteration: the schedule or the time zone is invalid.
    """
    # Only clusters with windows need the library.
    from cronsim import CronSim, CronSimError

    local = moment.astimezone(ZoneInfo(window.time_zone))
    try:
        since = next(CronSim(window.schedule, local.replace(second=0, microsecond=0) + _MINUTE, reverse=True), None)
        return since, next(CronSim(window.schedule, local))
    except CronSimError as error:
        raise ValueError(str(error)) from error
