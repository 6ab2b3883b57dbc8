"""Scheduling of pods: spread constraints and affinity, fields that users set instead, and the rack of a pod.

Every constraint is a preference: a cluster with fewer Kubernetes nodes or zones than brokers still runs.
Zones are no second spread constraint: the scheduler drops all spread constraints of a pod on Kubernetes nodes that
lack one of the labels, and many clusters have no zones (`requireAllTopologies` in PodTopologySpread of kube-scheduler).
"""

import copy

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, CONTROLLER_LABEL, POOL_LABEL, RACK_ANNOTATION

RACK_CONTAINER = "rack"
_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_GRACE_S = 120
"""A broker moves its leaderships to other brokers before it stops."""
_POD_FILES = "/etc/ottla-pod"
_RACK = f"metadata.annotations['{RACK_ANNOTATION}']"


def placement(cluster: Cluster, pool: Pool) -> Document:
    """Return the fields of a pod's spec that users may set, as set by them or by default."""
    # The loss of one Kubernetes node should cost one broker only, if there are enough Kubernetes nodes.
    spread: Document = {"maxSkew": 1, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"}
    spread["labelSelector"] = _peers(cluster, pool)
    term = {"labelSelector": _peers(cluster, pool), "topologyKey": cluster.rack_key or _ZONE}
    apart = {"weight": 100, "podAffinityTerm": term}
    said = pool.template.spec
    fields: Document = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "topologySpreadConstraints": [spread],
        **said,
    }
    if "topologySpreadConstraints" not in said:
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
        fields["affinity"] = {**affinity, **said.get("affinity", {})}
    return fields


def _peers(cluster: Cluster, pool: Pool) -> Document:
    # Controllers of all pools are one quorum: they are spread together, and not pool by pool.
    together = {CONTROLLER_LABEL: "true"} if pool.is_controller else {POOL_LABEL: pool.name}
    return {"matchLabels": {CLUSTER_LABEL: cluster.name, **together}}


def needs_rack(cluster: Cluster, pool: Pool) -> bool:
    return cluster.rack_key is not None and pool.is_broker


def rack_arguments(cluster: Cluster, pool: Pool) -> list[str]:
    """Return the arguments of ``ottla run`` for the rack, which is known only once the pod is scheduled."""
    return ["--override", "broker.rack=$(RACK)"] if needs_rack(cluster, pool) else []


def rack_environment(cluster: Cluster, pool: Pool) -> list[Document]:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": _RACK}}
    return [{"name": "RACK", "valueFrom": source}] if needs_rack(cluster, pool) else []


def rack_volumes(cluster: Cluster, pool: Pool) -> list[Document]:
    file = {"path": "rack", "fieldRef": {"apiVersion": "v1", "fieldPath": _RACK}}
    return [{"name": "pod", "downwardAPI": {"items": [file]}}] if needs_rack(cluster, pool) else []


def rack_container(container: Document) -> Document:
    """Return the init container that ends once the operator has written the rack; ``container`` is the broker's."""
    return {
        **copy.deepcopy({name: container[name] for name in container if name not in ("env", "volumeMounts")}),
        "name": RACK_CONTAINER,
        "args": ["wait-for", f"{_POD_FILES}/rack"],
        "volumeMounts": [{"name": "pod", "mountPath": _POD_FILES, "readOnly": True}],
    }


def rack_annotation(pod: Document, rack: str) -> Document:
    """Return the patch that gives a pod its rack; with the uid, so that it creates nothing if the pod is gone."""
    metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid") if name in pod["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "annotations": {RACK_ANNOTATION: rack}}}
