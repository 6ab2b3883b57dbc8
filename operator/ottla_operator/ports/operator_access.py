"""How the operator reaches the brokers of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAccess:
    """Where to begin, and what a client has to know besides. Never prints the latter, which hold a key."""

    bootstrap_servers: str
    """``host:port[,host:port]``."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As a Java client's file has them; empty where nobody is asked."""
