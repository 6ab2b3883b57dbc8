"""`Finding`: the result of one check, and the remedy."""

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """The status of a check; only the last three make `ottla doctor` fail."""

    OK = "ok"
    WARNING = "warning"
    UNHEALTHY = "unhealthy"
    DENIED = "denied"
    TIMEOUT = "timeout"

    @property
    def is_failure(self) -> bool:
        return self not in (Status.OK, Status.WARNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``check`` is the check's name, ``subject`` its object; nothing here is secret."""

    check: str
    subject: str
    status: Status
    said: str
    next_step: str = ""
