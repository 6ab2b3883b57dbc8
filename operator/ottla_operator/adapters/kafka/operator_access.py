"""How the operator connects to the brokers of a cluster: with TLS, to the listener of nodes."""

from collections.abc import Mapping

from ottla.config.properties import parse_properties
from ottla.errors import ConfigurationError
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.cluster_secrets import CLIENT_PROPERTIES, operator_secret
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.host import Host
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.secret_store import SecretStore


async def operator_access(host: Host, desired: DesiredCluster, secret_store: SecretStore) -> OperatorAccess:
    """Return the access of the operator to the brokers that ``host`` runs.

    Raises:
        BrokerUnreachableError: the operator has no certificate yet.
    """
    cluster = desired.cluster
    if cluster.tls is None:
        return OperatorAccess(bootstrap_servers=host.bootstrap_servers(desired, cluster.listeners[0]))
    properties = await operator_properties(cluster, secret_store)
    if properties is None:
        raise BrokerUnreachableError(
            f"Secret {operator_secret(cluster.name)} is missing or corrupt: the operator has no certificate"
        )
    return OperatorAccess(bootstrap_servers=host.nodes_servers(desired), properties=properties)


async def operator_properties(cluster: Cluster, secret_store: SecretStore) -> Mapping[str, str] | None:
    """Return the operator's client properties for a cluster with TLS; None without usable ones."""
    secret = await secret_store.read(operator_secret(cluster.name))
    text = None if secret is None else secret.entries.get(CLIENT_PROPERTIES)
    if text is None or not text.isascii():
        return None
    try:
        return parse_properties(text)
    except ConfigurationError:
        return None
