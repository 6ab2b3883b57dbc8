"""`Client`: the sender of a request, as groups identify it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Shown by DescribeGroups and kept in the log."""

    client_id: str
    host: str
    """As Kafka prints an address: ``/127.0.0.1``."""
