"""How clients outside Kubernetes reach brokers: what is known of the Services of listeners that are not internal.

Such a listener has a Service for each broker, ``<cluster>-<pool>-<ordinal>-<listener>``, because a client has to reach
the very broker that leads a partition, and one to begin at, ``<cluster>-<listener>-bootstrap``. A broker does not open
the listener before it knows where clients dial it: they would be sent to somewhere else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla_operator.model.certificate_order import certificate_name
from ottla_operator.model.listeners import LOAD_BALANCER, NODE_PORT, TLS, Listener
from ottla_operator.model.manifest import Cluster, Pool

BEGINNING = "bootstrap"
"""What stands for a node's id in texts about the Service that clients begin at."""
_NODE = "{node}"


def broker_service(cluster: Cluster, pool: Pool, ordinal: int, listener: Listener) -> str:
    return f"{cluster.name}-{pool.name}-{ordinal}-{listener.name}"


def beginning_service(cluster: Cluster, listener: Listener) -> str:
    return f"{cluster.name}-{listener.name}-{BEGINNING}"


def outside_listeners(cluster: Cluster) -> tuple[Listener, ...]:
    return tuple(listener for listener in cluster.listeners if listener.is_outside)


def dials_machines(cluster: Cluster) -> bool:
    """Tell whether clients of some listener dial the machine that a broker runs on."""
    return any(it.type == NODE_PORT and it.outside.advertised_host is None for it in cluster.listeners)


def verified_listeners(cluster: Cluster) -> tuple[Listener, ...]:
    """Return the listeners whose certificate the operator makes, or orders, for the hosts that clients outside dial.

    Whom a certificate is for that a user keeps is the user's to say.
    """
    return tuple(
        it
        for it in outside_listeners(cluster)
        if it.has_tls and (it.certificate is None or it.certificate.issuer_ref is not None)
    )


def looked_at(cluster: Cluster) -> tuple[Listener, ...]:
    """Return those of the `verified_listeners` that show a certificate of their own, which the operator looks at there.

    Where clients have to show theirs the operator, which has none for that door, would be a failed handshake each time.
    """
    return tuple(it for it in verified_listeners(cluster) if it.certificate is not None and it.asks_for != TLS)


def for_node(text: str, node: str) -> str:
    """Return ``text`` of the spec for one Service; ``node`` is a node's id, or `BEGINNING`."""
    return text.replace(_NODE, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What was seen of a cluster's Services for clients outside, by the name of the Service."""

    node_ports: Mapping[str, int] = field(default_factory=dict)
    """What the API server allocated."""
    ingresses: Mapping[str, str] = field(default_factory=dict)
    """Host names or addresses of load balancers, as far as these are there."""
    machines: tuple[str, ...] = ()
    """Addresses of the machines that brokers run on, sorted; looked at only where clients dial these."""

    def told(self, cluster: Cluster, pool: Pool, ordinal: int) -> Mapping[str, str | None]:
        """Return what clients of one broker dial, as `model.node_doors.Place.outside` has it."""
        node = str(pool.first_node_id + ordinal)
        return {
            it.name: self._address(it, broker_service(cluster, pool, ordinal, it), node)
            for it in outside_listeners(cluster)
        }

    def beginnings(self, cluster: Cluster, listener: Listener) -> str:
        """Return where clients of ``listener`` begin, as ``host:port[,host:port]``; empty while nobody knows."""
        address = self._address(listener, beginning_service(cluster, listener), BEGINNING)
        if address is None:
            return ""
        if not address.startswith(":"):
            return address
        return ",".join(f"{_in_url(machine)}{address}" for machine in self.machines)

    def hosts(self, cluster: Cluster) -> Iterator[str]:
        """Yield every host name and address that clients outside dial, as certificates say them."""
        for listener in outside_listeners(cluster):
            for service, node in _services(cluster, listener):
                host = (self._address(listener, service, node) or "").rpartition(":")[0]
                if host:
                    yield certificate_name(host.strip("[]"))
        yield from map(certificate_name, self.machines)

    def unknown(self, cluster: Cluster, listener: Listener) -> list[str]:
        """Return the Services of ``listener`` whose address clients cannot be told yet, in order."""
        return [it for it, node in _services(cluster, listener) if self._address(listener, it, node) is None]

    def _address(self, listener: Listener, service: str, node: str) -> str | None:
        """Return ``host:port``, without a host where that is a machine's; None while it is not known."""
        named = listener.outside.advertised_host
        if listener.type == LOAD_BALANCER:
            host = self.ingresses.get(service) if named is None else for_node(named, node)
            return None if host is None else f"{_in_url(host)}:{listener.port}"
        assert listener.type == NODE_PORT, "internal listeners have no Services of their own"
        port = self.node_ports.get(service)
        return None if port is None else f"{for_node(named or '', node)}:{port}"


def _services(cluster: Cluster, listener: Listener) -> Iterator[tuple[str, str]]:
    """Yield the Services of ``listener`` with what stands for their node; those of brokers that leave are left out."""
    yield beginning_service(cluster, listener), BEGINNING
    for pool in cluster.pools:
        for ordinal in range(pool.nodes if pool.is_broker else 0):
            yield broker_service(cluster, pool, ordinal, listener), str(pool.first_node_id + ordinal)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
