"""Through which listener the operator, and a user, connect to a cluster."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.errors import ConfigurationError
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.client_access import ClientAccess, listener_of
from ottla_operator.model.cluster_secrets import nodes_secret, trusted_entry
from ottla_operator.model.conditions import Rejected
from ottla_operator.model.listeners import TLS, TLS_EXTERNAL
from ottla_operator.model.manifest import Cluster
from ottla_operator.ports.host import Host
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.secret_store import SecretStore

if TYPE_CHECKING:
    from ottla.config.tls_settings import TlsSettings


async def operator_access(cluster: Cluster, host: Host) -> OperatorAccess | None:
    """Return how the operator connects to the brokers; None before the Cluster's first reconciliation.

    Raises one of `EXPECTED_ERRORS`.
    """
    if cluster.tls is None:
        address = cluster.known_bootstrap_servers
        return None if address is None else OperatorAccess(bootstrap_servers=address)
    if cluster.known_cluster_id is None:
        return None
    return await host.operator_access(await host.desired(cluster))


def no_listener(cluster: Cluster, authentication: str) -> Rejected:
    """Return that the cluster has no listener for a type of authentication."""
    names = ", ".join(f"{it.name} ({it.authentication_type or 'no authentication'})" for it in cluster.listeners)
    return Rejected(
        "NoListener",
        f"no listener of Cluster {cluster.name} has authentication {authentication}; it has {names}. Add one to the "
        "Cluster, or change the User",
    )


def access_without_manifest(operator: OperatorAccess, authentication: str) -> ClientAccess | Rejected:
    """Return how users connect to a cluster whose manifest is elsewhere, or why that is unknown here.

    The address, TLS and trusted authorities are those of the operator's own listener. The credentials are not known:
    users get them elsewhere.

    Raises:
        BrokerUnreachableError: the operator's trust store cannot be read.
    """
    from ottla.client.security import ClientSecurity

    security = ClientSecurity.from_properties(operator.properties)
    if security.protocol == "PLAINTEXT":
        return ClientAccess(bootstrap_servers=operator.bootstrap_servers)
    if authentication == TLS:
        return Rejected(
            "Unsupported",
            "certificates are signed where the Cluster's manifest is, which is not here; create the User there, or one "
            "of the type tls-external with a certificate that you have",
        )
    transport = "PLAINTEXT" if security.tls is None else "SSL"
    if authentication == TLS_EXTERNAL and security.tls is None:
        return Rejected(
            "NoListener",
            f"clients cannot authenticate by certificate at {operator.bootstrap_servers}, which has no TLS; name the "
            "address of a listener that requires certificates",
        )
    return ClientAccess(
        bootstrap_servers=operator.bootstrap_servers,
        security_protocol=transport if authentication == TLS_EXTERNAL else f"SASL_{transport}",
        ca_pem=None if security.tls is None else _trusted(security.tls),
    )


def _trusted(tls: "TlsSettings") -> str | None:
    from ottla.tls.material import load_trusted, pem_of

    try:
        trusted = load_trusted(tls)
    except ConfigurationError as error:
        raise BrokerUnreachableError(str(error)) from error
    return None if trusted is None else pem_of(trusted).decode()


async def client_access(cluster: Cluster, authentication: str, secret_store: SecretStore) -> ClientAccess | Rejected:
    """Return how users of a type of authentication connect, or that no listener fits.

    Raises one of `EXPECTED_ERRORS`.
    """
    listener = listener_of(cluster, authentication)
    if listener is None:
        return no_listener(cluster, authentication)
    address = cluster.known_addresses.get(listener.name)
    if address is None:
        raise BrokerUnreachableError(f"listener {listener.name} of Cluster {cluster.name} has no address yet")
    access = ClientAccess(bootstrap_servers=address, security_protocol=listener.security_protocol)
    if not listener.has_tls:
        return access
    secret = await secret_store.read(nodes_secret(cluster.name))
    if secret is None:
        raise BrokerUnreachableError(f"Secret {nodes_secret(cluster.name)} is missing: nodes have no certificate yet")
    return replace(access, ca_pem=secret.entries.get(trusted_entry(listener)))
