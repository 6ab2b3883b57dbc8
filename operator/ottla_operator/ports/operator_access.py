"""How the operator connects to the brokers of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAccess:
    """Bootstrap servers, and client properties. Never prints the latter, which hold a key."""

    bootstrap_servers: str
    """``host:port[,host:port]``."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As in a Java client's file; empty without authentication and TLS."""
