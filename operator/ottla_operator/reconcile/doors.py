"""By which door of a cluster somebody comes in: the operator itself, and a user."""

from dataclasses import replace

from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.hosts.host import Host
from ottla_operator.hosts.operator_access import OperatorAccess
from ottla_operator.hosts.secret_store import SecretStore
from ottla_operator.model.client_access import ClientAccess, listener_of
from ottla_operator.model.cluster_secrets import nodes_secret, trusted_entry
from ottla_operator.model.conditions import Refused
from ottla_operator.model.manifest import Cluster


async def operator_access(cluster: Cluster, host: Host) -> OperatorAccess | None:
    """Return how the operator reaches the brokers; None until the cluster has an address.

    Raises one of `EXPECTED_ERRORS`.
    """
    address = cluster.known_bootstrap_servers
    if cluster.tls is None or address is None:
        return None if address is None else OperatorAccess(bootstrap_servers=address)
    return await host.operator_access(await host.desired(cluster))


def no_door(cluster: Cluster, authentication: str) -> Refused:
    """Return why a user of a type of authentication cannot come in."""
    names = ", ".join(f"{it.name} ({it.asks_for or 'nobody is asked'})" for it in cluster.listeners)
    return Refused(
        "NoListener",
        f"no listener of Cluster {cluster.name} has authentication {authentication}; it has {names}. Add one to the "
        "Cluster, or change the User",
    )


def access_elsewhere(operator: OperatorAccess) -> ClientAccess:
    """Return how users come in to a cluster whose manifest is elsewhere: by the door that the operator takes."""
    protocol = operator.properties.get("security.protocol", "PLAINTEXT").strip().upper()
    return ClientAccess(
        bootstrap_servers=operator.bootstrap_servers,
        security_protocol=protocol,
        ca_pem=operator.properties.get("ssl.truststore.certificates"),
    )


async def client_access(cluster: Cluster, authentication: str, secret_store: SecretStore) -> ClientAccess | Refused:
    """Return how users of a type of authentication come in, or that no listener fits.

    Raises one of `EXPECTED_ERRORS`.
    """
    listener = listener_of(cluster, authentication)
    if listener is None:
        return no_door(cluster, authentication)
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
