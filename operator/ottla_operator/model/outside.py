"""How clients outside Kubernetes reach brokers: observed addresses of Services, for listeners that are not internal.

Such a listener has a Service for each broker, ``<cluster>-<pool>-<ordinal>-<listener>``, because a client has to reach
the very broker that leads a partition, and a bootstrap Service, ``<cluster>-<listener>-bootstrap``. A broker does not
open the listener before its advertised address is known: clients would be directed elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla_operator.model.certificate_order import certificate_name
from ottla_operator.model.listeners import LOAD_BALANCER, NODE_PORT, TLS, Listener
from ottla_operator.model.manifest import Cluster, Pool

BOOTSTRAP = "bootstrap"
"""Replaces ``{node}`` in settings of the bootstrap Service."""
_NODE = "{node}"


def broker_service(cluster: Cluster, pool: Pool, ordinal: int, listener: Listener) -> str:
    return f"{cluster.name}-{pool.name}-{ordinal}-{listener.name}"


def outside_bootstrap_service(cluster: Cluster, listener: Listener) -> str:
    return f"{cluster.name}-{listener.name}-{BOOTSTRAP}"


def outside_listeners(cluster: Cluster) -> tuple[Listener, ...]:
    return tuple(listener for listener in cluster.listeners if listener.is_outside)


def advertises_host_addresses(cluster: Cluster) -> bool:
    """Tell whether some listener advertises the address of the Kubernetes node that a broker runs on."""
    return any(it.type == NODE_PORT and it.outside.advertised_host is None for it in cluster.listeners)


def verified_listeners(cluster: Cluster) -> tuple[Listener, ...]:
    """Return outside listeners whose certificate the operator issues, or requests, for the advertised hosts.

    The names in a certificate that a user provides are the user's responsibility.
    """
    return tuple(
        it
        for it in outside_listeners(cluster)
        if it.has_tls and (it.certificate is None or it.certificate.issuer_ref is not None)
    )


def probed_listeners(cluster: Cluster) -> tuple[Listener, ...]:
    """Return those of the `verified_listeners` with a certificate of their own, which the operator reads by connecting.

    Listeners that require client certificates are left out: the operator has none for them, so each probe would be a
    failed handshake.
    """
    return tuple(
        it for it in verified_listeners(cluster) if it.certificate is not None and it.authentication_type != TLS
    )


def for_node(text: str, node: str) -> str:
    """Return a setting of the spec for one Service; ``node`` is a node's id, or `BOOTSTRAP`."""
    return text.replace(_NODE, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Observed addresses of a cluster's Services for clients outside, by the name of the Service."""

    node_ports: Mapping[str, int] = field(default_factory=dict)
    """Ports that the API server allocated."""
    ingresses: Mapping[str, str] = field(default_factory=dict)
    """Host names or addresses of load balancers, as far as they are assigned."""
    host_addresses: tuple[str, ...] = ()
    """Addresses of the Kubernetes nodes that brokers run on, sorted; empty unless some listener advertises them."""

    def advertised_addresses(self, cluster: Cluster, pool: Pool, ordinal: int) -> Mapping[str, str | None]:
        """Return the advertised addresses of one broker, for `model.node_listeners.Place.outside`."""
        node = str(pool.first_node_id + ordinal)
        return {
            it.name: self._address(it, broker_service(cluster, pool, ordinal, it), node)
            for it in outside_listeners(cluster)
        }

    def bootstrap_addresses(self, cluster: Cluster, listener: Listener) -> str:
        """Return the bootstrap address of ``listener``, as ``host:port[,host:port]``; empty while it is unknown."""
        address = self._address(listener, outside_bootstrap_service(cluster, listener), BOOTSTRAP)
        if address is None:
            return ""
        if not address.startswith(":"):
            return address
        return ",".join(f"{_in_url(host)}{address}" for host in self.host_addresses)

    def advertised_hosts(self, cluster: Cluster) -> Iterator[str]:
        """Yield every advertised host name and address of outside listeners, in the form of certificates."""
        for listener in outside_listeners(cluster):
            for service, node in _services(cluster, listener):
                host = (self._address(listener, service, node) or "").rpartition(":")[0]
                if host:
                    yield certificate_name(host.strip("[]"))
        yield from map(certificate_name, self.host_addresses)

    def unknown(self, cluster: Cluster, listener: Listener) -> list[str]:
        """Return the Services of ``listener`` whose address is not known yet, in order."""
        return [it for it, node in _services(cluster, listener) if self._address(listener, it, node) is None]

    def _address(self, listener: Listener, service: str, node: str) -> str | None:
        """Return ``host:port``, without a host if that is the Kubernetes node's; None while it is unknown."""
        named = listener.outside.advertised_host
        if listener.type == LOAD_BALANCER:
            host = self.ingresses.get(service) if named is None else for_node(named, node)
            return None if host is None else f"{_in_url(host)}:{listener.port}"
        assert listener.type == NODE_PORT, "internal listeners have no Services of their own"
        port = self.node_ports.get(service)
        return None if port is None else f"{for_node(named or '', node)}:{port}"


def _services(cluster: Cluster, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield the Services of ``listener`` with the value of ``{node}``; without those of brokers that are to leave."""
    yield outside_bootstrap_service(cluster, listener), BOOTSTRAP
    for pool in cluster.pools:
        for ordinal in range(pool.nodes if pool.is_broker else 0):
            yield broker_service(cluster, pool, ordinal, listener), str(pool.first_node_id + ordinal)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
