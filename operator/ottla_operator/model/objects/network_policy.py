"""The NetworkPolicy of a Cluster: ports between nodes for nodes and the operator, others as the spec says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operator.model.document import Document, Json
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.addresses import ADMIN_PORT, CONTROLLER_PORT, NODES_PORT
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, metadata
from ottla_operator.model.outside import probed_listeners

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label that the API server sets on every namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPods:
    """Namespace and labels of the operator's pods."""

    namespace: str
    labels: Mapping[str, str]


def network_policy(cluster: Cluster, operator: OperatorPods) -> Document:
    """Return the policy of a cluster with ``spec.networkPolicy``."""
    assert cluster.network_policy is not None, "callers check spec.networkPolicy"
    pods = {"matchLabels": {CLUSTER_LABEL: cluster.name}}
    operators = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: operator.namespace}},
        "podSelector": {"matchLabels": dict(operator.labels)},
    }
    # Without TLS, nodes and the operator connect to the clients' first listener.
    ports = [CONTROLLER_PORT, cluster.listeners[0].port if cluster.tls is None else NODES_PORT]
    ingress = [
        _rule(ports, [{"podSelector": pods}, operators]),
        *(_rule([it.port], peers) for it in cluster.listeners if (peers := _of_clients(cluster, it, operators)) != ()),
    ]
    if cluster.network_policy.http_from != ():
        ingress.append(_rule([ADMIN_PORT], cluster.network_policy.http_from))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(cluster, cluster.name),
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _of_clients(cluster: Cluster, listener: Listener, operators: Json) -> tuple[Json, ...] | None:
    """Return the peers of a listener for clients, with the operator if it probes the listener's certificate."""
    if listener.allow_from is None or listener not in probed_listeners(cluster):
        return listener.allow_from
    return (*listener.allow_from, operators)


def _rule(ports: Sequence[int], peers: Sequence[Json] | None) -> Document:
    """Return a rule of the policy; ``peers`` None: all.

    A listener without any peer has no rule: Kubernetes reads an empty list as all peers.
    """
    assert peers is None or peers, "an empty list of peers means all peers"
    rule: Document = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    return rule if peers is None else {**rule, "from": list(peers)}
