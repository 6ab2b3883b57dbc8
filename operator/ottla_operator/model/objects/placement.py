"""Where pods go: what the operator asks of the scheduler, what users ask for instead, and how a pod learns its rack.

Everything that the operator asks for is a wish: a cluster that has fewer machines or zones than nodes runs anyway.
Zones are no second spread constraint: of pods with such constraints the scheduler forgets all of them on machines that
lack one of the labels, and many clusters have no zones (`requireAllTopologies` in PodTopologySpread of kube-scheduler).
"""

import copy

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, CONTROLLER_LABEL, POOL_LABEL, RACK_ANNOTATION

RACK_CONTAINER = "rack"
_MACHINE = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_GRACE_S = 120
"""A broker hands its leaderships over before it ends."""
_POD_FILES = "/etc/ottla-pod"
_RACK = f"metadata.annotations['{RACK_ANNOTATION}']"


def placement(cluster: Cluster, pool: Pool) -> Document:
    """Return the fields of a pod's spec that users may set, as they or the operator set them."""
    # One machine that is lost should take one node with it, where there are machines to choose from.
    spread: Document = {"maxSkew": 1, "topologyKey": _MACHINE, "whenUnsatisfiable": "ScheduleAnyway"}
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
    # Controllers of all pools are one quorum: together they are spread, and not pool by pool.
    together = {CONTROLLER_LABEL: "true"} if pool.is_controller else {POOL_LABEL: pool.name}
    return {"matchLabels": {CLUSTER_LABEL: cluster.name, **together}}


def asks_for_rack(cluster: Cluster, pool: Pool) -> bool:
    return cluster.rack_key is not None and pool.is_broker


def rack_arguments(cluster: Cluster, pool: Pool) -> list[str]:
    """Return what ``ottla run`` is told of the rack, which is known only once the pod has its machine."""
    return ["--override", "broker.rack=$(RACK)"] if asks_for_rack(cluster, pool) else []


def rack_environment(cluster: Cluster, pool: Pool) -> list[Document]:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": _RACK}}
    return [{"name": "RACK", "valueFrom": source}] if asks_for_rack(cluster, pool) else []


def rack_volumes(cluster: Cluster, pool: Pool) -> list[Document]:
    file = {"path": "rack", "fieldRef": {"apiVersion": "v1", "fieldPath": _RACK}}
    return [{"name": "pod", "downwardAPI": {"items": [file]}}] if asks_for_rack(cluster, pool) else []


def rack_container(container: Document) -> Document:
    """Return the init container that ends when the operator has written the rack; ``container`` is the broker's."""
    return {
        **copy.deepcopy({name: container[name] for name in container if name not in ("env", "volumeMounts")}),
        "name": RACK_CONTAINER,
        "args": ["wait-for", f"{_POD_FILES}/rack"],
        "volumeMounts": [{"name": "pod", "mountPath": _POD_FILES, "readOnly": True}],
    }


def rack_annotation(pod: Document, rack: str) -> Document:
    """Return what has to be applied to a pod so that it knows its rack; nothing is made where the pod has gone."""
    metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid") if name in pod["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "annotations": {RACK_ANNOTATION: rack}}}
