"""What a Kubernetes API says of the Services by which clients outside come in; see `model.outside`."""

from ottla.config.properties import parse_properties
from ottla_operator.model.listeners import NODE_PORT, Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.node_doors import told_by
from ottla_operator.model.nodes import node_name
from ottla_operator.model.objects.metadata import CLUSTER_LABEL
from ottla_operator.model.objects.outside_services import seen_outside
from ottla_operator.model.objects.pods import FILE_END
from ottla_operator.model.outside import Outside, beginning_service, broker_service, dials_machines, outside_listeners
from ottla_operator.ports.object_store import ObjectStore


async def read_outside(api: ObjectStore, namespace: str, cluster: Cluster) -> Outside:
    """Return what is known of addresses; asks for nothing where every listener is internal."""
    listeners = outside_listeners(cluster)
    if not listeners:
        return Outside()
    selector = f"{CLUSTER_LABEL}={cluster.name}"
    services = await api.objects("Service", namespace, selector)
    by_ports = [it for it in listeners if it.type == NODE_PORT]
    pods = await api.objects("Pod", namespace, selector) if dials_machines(cluster) else []
    there = {it["metadata"]["name"] for it in services}
    kept = {name: port for name, port in (await _kept_ports(api, namespace, cluster, by_ports, there)).items() if port}
    return seen_outside(cluster, services, pods, kept)


async def _kept_ports(
    api: ObjectStore, namespace: str, cluster: Cluster, listeners: list[Listener], there: set[str]
) -> dict[str, int]:
    """Return the ports of Services that are gone, as brokers and the status tell clients of them; 0: nobody does."""
    found: dict[str, int] = {}
    for listener in listeners:
        name = beginning_service(cluster, listener)
        if name not in there:
            found[name] = _port(cluster.known_addresses.get(listener.name, "").partition(",")[0])
    for pool in cluster.pools:
        lost = [
            (ordinal, it)
            for ordinal in range(pool.nodes if pool.is_broker else 0)
            for it in listeners
            if broker_service(cluster, pool, ordinal, it) not in there
        ]
        published = await api.get("ConfigMap", namespace, f"{cluster.name}-{pool.name}") if lost else None
        files = (published or {}).get("data") or {}
        for ordinal, listener in lost:
            text = files.get(f"{node_name(cluster, pool, ordinal)}{FILE_END}", "")
            told = told_by(parse_properties(text).get("advertised.listeners", ""))
            found[broker_service(cluster, pool, ordinal, listener)] = _port(told.get(listener.kafka_name, ""))
    return found


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0
