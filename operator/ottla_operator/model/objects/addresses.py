"""Names of a Cluster's Services, host names of its nodes, and ports."""

from ottla_operator.model.listeners import PLAINTEXT, Listener
from ottla_operator.model.manifest import Cluster

NODES_PORT = 9091
CONTROLLER_PORT = 9093
ADMIN_PORT = 8080


def nodes_service(cluster: Cluster) -> str:
    return f"{cluster.name}-nodes"


def bootstrap_service(cluster: Cluster) -> str:
    return f"{cluster.name}-bootstrap"


def bootstrap_servers(cluster: Cluster, port: int) -> str:
    return f"{bootstrap_service(cluster)}.{cluster.metadata.namespace}.svc:{port}"


def certificate_names(cluster: Cluster) -> tuple[str, ...]:
    """Return the host names by which nodes and clients inside Kubernetes connect to ``cluster``."""
    namespace = cluster.metadata.namespace
    nodes, bootstrap = f"*.{nodes_service(cluster)}.{namespace}", bootstrap_service(cluster)
    forms = (f"{nodes}.svc", f"{nodes}.svc.cluster.local", bootstrap)
    return (*forms, *(f"{bootstrap}.{namespace}{end}" for end in ("", ".svc", ".svc.cluster.local")))


def inside_ports(cluster: Cluster) -> list[tuple[str, int]]:
    """Return name and port of the listeners that are reached by the brokers' own host names."""
    outside = {listener.port for listener in cluster.listeners if listener.is_outside}
    return [(name, port) for name, port in broker_ports(cluster) if port not in outside]


def broker_ports(cluster: Cluster) -> list[tuple[str, int]]:
    ports = [(port_name(listener), listener.port) for listener in cluster.listeners]
    return ports if cluster.tls is None else [*ports, ("nodes", NODES_PORT)]


def port_name(listener: Listener) -> str:
    # Clusters older than named listeners use this port name; without it their pods would get no connections.
    return "kafka" if listener.name == PLAINTEXT.name else listener.name
