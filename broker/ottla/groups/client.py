"""`Client`: who sends a request, as far as groups care."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Shown by DescribeGroups and kept in the log."""

    client_id: str
    host: str
    """As Kafka prints an address: ``/127.0.0.1``."""
