"""What the clocks on the walls show in a simulation: a calendar that goes on with simulated time."""

from datetime import UTC, datetime, timedelta

BEGINS = datetime(2025, 12, 31, 23, 59, 30, tzinfo=UTC)


def shown(simulated_s: float) -> str:
    """Return what is read ``simulated_s`` after the beginning: RFC 3339, UTC, whole seconds."""
    return (BEGINS + timedelta(seconds=int(simulated_s))).strftime("%Y-%m-%dT%H:%M:%SZ")
