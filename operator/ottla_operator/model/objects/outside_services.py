"""The Services of listeners for clients outside Kubernetes; see `model.outside`."""

from ottla_operator.model.document import Document
from ottla_operator.model.listeners import LOAD_BALANCER, NODE_PORT, Listener
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.nodes import DesiredCluster, node_name, node_of_name
from ottla_operator.model.objects.addresses import port_name
from ottla_operator.model.objects.metadata import BROKER_LABEL, CLUSTER_LABEL, metadata
from ottla_operator.model.outside import (
    BOOTSTRAP,
    Outside,
    broker_service,
    for_node,
    outside_bootstrap_service,
    outside_listeners,
)

LISTENER_LABEL = "ottla.dev/listener"
_POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
SERVICE_TYPES = {NODE_PORT: "NodePort", LOAD_BALANCER: "LoadBalancer"}
"""The type of a listener's Services."""


def outside_services(desired: DesiredCluster) -> list[Document]:
    """Return the Services of every listener that is not internal, those of brokers that leave included."""
    cluster, found = desired.cluster, []
    for listener in outside_listeners(cluster):
        found.append(_bootstrap_of(cluster, listener, desired.outside or Outside()))
        for node in desired.nodes:
            if node.is_broker and (place := node_of_name(cluster, node.name)) is not None:
                found.append(_of_a_broker(cluster, listener, *place, desired.outside or Outside()))
    return found


def seen_outside(cluster: Cluster, services: list[Document], pods: list[Document], kept: dict[str, int]) -> Outside:
    """Return the addresses in Services and pods of ``cluster``.

    ``kept`` has node ports of deleted Services: the same ports are requested again.
    """
    ports, ingresses = dict(kept), {}
    for listener in outside_listeners(cluster):
        for service in services:
            labels, spec = service["metadata"].get("labels") or {}, service["spec"]
            if labels.get(LISTENER_LABEL) != listener.name or spec.get("type") != SERVICE_TYPES[listener.type]:
                continue
            name = service["metadata"]["name"]
            if port := spec["ports"][0].get("nodePort"):
                ports[name] = port
            for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress", ())[:1]:
                ingresses[name] = ingress.get("hostname") or ingress.get("ip")
    return Outside(node_ports=ports, ingresses=ingresses, host_addresses=tuple(sorted(_host_addresses(cluster, pods))))


def _host_addresses(cluster: Cluster, pods: list[Document]) -> set[str]:
    """Return the addresses of the Kubernetes nodes that brokers run on.

    While a broker is restarted its next Kubernetes node is unknown: addresses that were advertised before count until
    it is back, so that certificates and Secrets are not rewritten at each restart.
    """
    found = [
        pod["status"]["hostIP"]
        for pod in pods
        if pod.get("status", {}).get("hostIP")
        and (pod["metadata"].get("labels") or {}).get(BROKER_LABEL) == "true"
        and not pod["metadata"].get("deletionTimestamp")
    ]
    if len(found) >= len(cluster.broker_ids):
        return set(found)
    advertised = [
        address.rpartition(":")[0].strip("[]")
        for listener in cluster.listeners
        if listener.type == NODE_PORT and listener.outside.advertised_host is None
        for address in cluster.known_addresses.get(listener.name, "").split(",")
    ]
    return {*found, *filter(None, advertised)}


def _of_a_broker(cluster: Cluster, listener: Listener, pool: Pool, ordinal: int, outside: Outside) -> Document:
    name = broker_service(cluster, pool, ordinal, listener)
    service = _service(cluster, listener, name, str(pool.first_node_id + ordinal), outside)
    selector = {CLUSTER_LABEL: cluster.name, _POD_NAME_LABEL: node_name(cluster, pool, ordinal)}
    # A broker may lead partitions although it is not ready; the headless Service publishes it then, too.
    service["spec"] |= {"publishNotReadyAddresses": True, "selector": selector}
    return service


def _bootstrap_of(cluster: Cluster, listener: Listener, outside: Outside) -> Document:
    service = _service(cluster, listener, outside_bootstrap_service(cluster, listener), BOOTSTRAP, outside)
    service["spec"]["selector"] = {CLUSTER_LABEL: cluster.name, BROKER_LABEL: "true"}
    return service


def _service(cluster: Cluster, listener: Listener, name: str, node: str, outside: Outside) -> Document:
    port: Document = {
        "name": port_name(listener),
        "port": listener.port,
        "targetPort": port_name(listener),
        "protocol": "TCP",
    }
    if listener.type == NODE_PORT and name in outside.node_ports:
        # Named, so that a recreated Service keeps the port that clients know.
        port["nodePort"] = outside.node_ports[name]
    spec: Document = {"type": SERVICE_TYPES[listener.type], "ports": [port]}
    if listener.outside.load_balancer_class is not None:
        spec["loadBalancerClass"] = listener.outside.load_balancer_class
    common = metadata(cluster, name)
    annotations = {key: for_node(value, node) for key, value in listener.outside.annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **common,
            "labels": {**common["labels"], LISTENER_LABEL: listener.name},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
    }
