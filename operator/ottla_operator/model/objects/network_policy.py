"""The NetworkPolicy of a Cluster: nodes and the operator where nodes talk, everybody else where the spec says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operator.model.document import Document, Json
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.addresses import ADMIN_PORT, CONTROLLER_PORT, NODES_PORT
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, metadata
from ottla_operator.model.outside import looked_at

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label that the API server itself puts on every namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPods:
    """By what the pods of the operator are known."""

    namespace: str
    labels: Mapping[str, str]


def network_policy(cluster: Cluster, operator: OperatorPods) -> Document:
    """Return the policy of a cluster that asks for one (``spec.networkPolicy``)."""
    assert cluster.network_policy is not None, "asked for"
    pods = {"matchLabels": {CLUSTER_LABEL: cluster.name}}
    operators = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: operator.namespace}},
        "podSelector": {"matchLabels": dict(operator.labels)},
    }
    # Without TLS nodes and the operator come in by the clients' first listener, which is everybody's.
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
    """Return who may come in to a listener for clients; the operator where it looks at the certificate."""
    if listener.allow_from is None or listener not in looked_at(cluster):
        return listener.allow_from
    return (*listener.allow_from, operators)


def _rule(ports: Sequence[int], peers: Sequence[Json] | None) -> Document:
    """Return a rule of the policy; ``peers`` None: everybody.

    Nobody is no rule at all: Kubernetes reads an empty list as everybody.
    """
    assert peers is None or peers, "nobody has no rule"
    rule: Document = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    return rule if peers is None else {**rule, "from": list(peers)}
