"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds (``metav1.Time``)."""

from datetime import UTC, datetime
from typing import Final

_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def instant(text: str) -> datetime:
    """Return the time of a timestamp.

    Raises:
        ValueError: it is none.
    """
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


def timestamp(moment: datetime) -> str:
    """Return the timestamp of ``moment``, which is in UTC."""
    return moment.strftime(_FORMAT)


def valid_timestamp(value: object) -> str:
    """Return ``value`` if it is a timestamp, else "": annotations can be edited by others."""
    try:
        instant(str(value))
    except ValueError:
        return ""
    return str(value)
