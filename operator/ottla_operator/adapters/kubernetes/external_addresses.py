"""Addresses of Services for clients outside, as observed on Kubernetes; see `model.outside`."""

from ottla.config.properties import parse_properties
from ottla_operator.model.listeners import NODE_PORT, Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.node_listeners import parse_advertised_listeners
from ottla_operator.model.nodes import node_name
from ottla_operator.model.objects.metadata import CLUSTER_LABEL
from ottla_operator.model.objects.outside_services import SERVICE_TYPES, seen_outside
from ottla_operator.model.objects.pods import FILE_END
from ottla_operator.model.outside import (
    Outside,
    advertises_host_addresses,
    broker_service,
    outside_bootstrap_service,
    outside_listeners,
)
from ottla_operator.ports.object_store import ObjectStore


async def read_outside(api: ObjectStore, namespace: str, cluster: Cluster) -> Outside:
    """Return the known addresses; sends no request if every listener is internal."""
    listeners = outside_listeners(cluster)
    if not listeners:
        return Outside()
    selector = f"{CLUSTER_LABEL}={cluster.name}"
    services = await api.objects("Service", namespace, selector)
    by_ports = [it for it in listeners if it.type == NODE_PORT]
    pods = await api.objects("Pod", namespace, selector) if advertises_host_addresses(cluster) else []
    # A Service whose type another client changed has lost its ports, as a deleted one.
    there = {it["metadata"]["name"] for it in services if it["spec"].get("type") == SERVICE_TYPES[NODE_PORT]}
    kept = {name: port for name, port in (await _kept_ports(api, namespace, cluster, by_ports, there)).items() if port}
    return seen_outside(cluster, services, pods, kept)


async def _kept_ports(
    api: ObjectStore, namespace: str, cluster: Cluster, listeners: list[Listener], there: set[str]
) -> dict[str, int]:
    """Return the ports of lost Services, as in published configurations and the status; 0 if unknown."""
    found: dict[str, int] = {}
    for listener in listeners:
        name = outside_bootstrap_service(cluster, listener)
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
            advertised = parse_advertised_listeners(parse_properties(text).get("advertised.listeners", ""))
            found[broker_service(cluster, pool, ordinal, listener)] = _port(advertised.get(listener.kafka_name, ""))
    return found


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0
