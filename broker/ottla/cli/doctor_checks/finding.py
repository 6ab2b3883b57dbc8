"""`Finding`: what one check saw, and what to do about it."""

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """How bad it is; only the last three make `ottla doctor` fail."""

    OK = "ok"
    WARNING = "warning"
    UNHEALTHY = "unhealthy"
    DENIED = "denied"
    TIMEOUT = "timeout"

    @property
    def is_failure(self) -> bool:
        return self not in (Verdict.OK, Verdict.WARNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``check`` is the check's name, ``subject`` what it looked at; nothing here is secret."""

    check: str
    subject: str
    verdict: Verdict
    said: str
    next_step: str = ""
