"""How clients reach a cluster: the one value between a cluster's doors and the Secrets of its users."""

from dataclasses import dataclass

from ottla_operator.model.listeners import PLAINTEXT, TLS, TLS_EXTERNAL, Listener
from ottla_operator.model.manifest import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """One door of a cluster, as a client has to know it."""

    bootstrap_servers: str
    """``host:port[,host:port]``."""
    security_protocol: str = "PLAINTEXT"
    """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ca_pem: str | None = None
    """The certificates that clients have to trust; None where there is no TLS, or everybody trusts them anyway."""
    mechanism: str | None = None
    """The SASL mechanism of users that have no password; None where the door has no SASL."""

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")


def listener_of(cluster: Cluster, authentication: str) -> Listener | None:
    """Return the listener for users of a type of authentication: the first that asks for it.

    Where nothing but the plain listener is there, everybody comes in by that. None: the cluster has no fitting door.
    """
    if cluster.listeners == (PLAINTEXT,):
        return PLAINTEXT
    wanted = TLS if authentication == TLS_EXTERNAL else authentication
    return next((listener for listener in cluster.listeners if listener.asks_for == wanted), None)
