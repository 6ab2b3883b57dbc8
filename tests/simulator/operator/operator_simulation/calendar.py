"""The calendar of a simulation, which advances with simulated time."""

from datetime import UTC, datetime, timedelta

BEGINS = datetime(2025, 12, 31, 23, 59, 30, tzinfo=UTC)


def shown(simulated_s: float) -> str:
    """Return the time ``simulated_s`` after the start: RFC 3339, UTC, whole seconds."""
    return (BEGINS + timedelta(seconds=int(simulated_s))).strftime("%Y-%m-%dT%H:%M:%SZ")
