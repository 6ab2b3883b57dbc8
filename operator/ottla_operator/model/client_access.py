"""How clients reach a cluster: the values that users' Secrets need of a listener."""

from dataclasses import dataclass

from ottla_operator.model.listeners import PLAINTEXT, TLS, TLS_EXTERNAL, Listener
from ottla_operator.model.manifest import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """One listener of a cluster, from a client's side."""

    bootstrap_servers: str
    """``host:port[,host:port]``."""
    security_protocol: str = "PLAINTEXT"
    """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ca_pem: str | None = None
    """The certificates that clients have to trust; None without TLS, or when a public authority signed the
    listener's."""
    mechanism: str | None = None
    """The SASL mechanism of users without a password; None if the listener has no SASL."""

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")


def listener_of(cluster: Cluster, authentication: str) -> Listener | None:
    """Return the first listener with a type of authentication, for users of that type.

    If the plain listener is the only one, all users connect through it. None: the cluster has no such listener.
    """
    if cluster.listeners == (PLAINTEXT,):
        return PLAINTEXT
    wanted = TLS if authentication == TLS_EXTERNAL else authentication
    return next((listener for listener in cluster.listeners if listener.authentication_type == wanted), None)
