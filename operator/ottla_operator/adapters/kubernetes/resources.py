"""Every kind that the operator reads or writes: where the API server has it.

A fixed table, so that nothing has to be discovered: the operator writes versions of kinds that it knows.
"""

from typing import NamedTuple


class ResourceType(NamedTuple):
    """Group (empty: the core's), version and plural of a kind; Kubernetes nodes are in no namespace."""

    group: str
    version: str
    plural: str
    is_namespaced: bool = True


RESOURCES = {
    "Cluster": ResourceType("ottla.dev", "v1", "clusters"),
    "Topic": ResourceType("ottla.dev", "v1", "topics"),
    "User": ResourceType("ottla.dev", "v1", "users"),
    "StatefulSet": ResourceType("apps", "v1", "statefulsets"),
    "Service": ResourceType("", "v1", "services"),
    "ConfigMap": ResourceType("", "v1", "configmaps"),
    "ServiceAccount": ResourceType("", "v1", "serviceaccounts"),
    "NetworkPolicy": ResourceType("networking.k8s.io", "v1", "networkpolicies"),
    "PodDisruptionBudget": ResourceType("policy", "v1", "poddisruptionbudgets"),
    "Secret": ResourceType("", "v1", "secrets"),
    "Certificate": ResourceType("cert-manager.io", "v1", "certificates"),
    "Pod": ResourceType("", "v1", "pods"),
    "Node": ResourceType("", "v1", "nodes", is_namespaced=False),
    "PersistentVolumeClaim": ResourceType("", "v1", "persistentvolumeclaims"),
    "Event": ResourceType("events.k8s.io", "v1", "events"),
    "Lease": ResourceType("coordination.k8s.io", "v1", "leases"),
}
