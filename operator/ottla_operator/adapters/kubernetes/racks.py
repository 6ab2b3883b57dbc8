"""Racks of pods: the operator copies the rack from a label of the Kubernetes node to an annotation of the pod.

Pods themselves may not read Kubernetes nodes. The init container of `model.objects.placement` waits for the annotation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operator.errors import ApiError
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.metadata import RACK_ANNOTATION
from ottla_operator.model.objects.placement import RACK_CONTAINER, rack_annotation
from ottla_operator.ports.object_store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRacks:
    """Racks to write, and racks that are unknown."""

    annotations: Mapping[str, Document]
    """By ``Pod/<name>``: the patch to apply."""
    missing: Mapping[str, tuple[str, str]]
    """By pod: reason and message of why its rack is unknown."""


async def find_racks(api: ObjectStore, cluster: Cluster, pods: Sequence[Document]) -> PodRacks:
    """Look up the racks of scheduled pods without the annotation; usually there are none."""
    annotations: dict[str, Document] = {}
    missing: dict[str, tuple[str, str]] = {}
    for pod in pods if cluster.rack_key is not None else ():
        name, kubernetes_node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName")
        if kubernetes_node is None or not _waits(pod):
            continue
        rack = await _rack(api, kubernetes_node, str(cluster.rack_key))
        if isinstance(rack, str):
            annotations[f"Pod/{name}"] = rack_annotation(pod, rack)
        else:
            missing[name] = rack
    return PodRacks(annotations=annotations, missing=missing)


def _waits(pod: Document) -> bool:
    metadata = pod["metadata"]
    has_rack = (metadata.get("annotations") or {}).get(RACK_ANNOTATION)
    containers = pod["spec"].get("initContainers") or ()
    is_done = has_rack or metadata.get("deletionTimestamp")
    return not is_done and any(it["name"] == RACK_CONTAINER for it in containers)


async def _rack(api: ObjectStore, kubernetes_node: str, key: str) -> str | tuple[str, str]:
    """Return the rack, or reason and message."""
    try:
        found = await api.get("Node", "", kubernetes_node)
    except ApiError as error:
        if error.status != 403:
            raise
        message = "the operator may not read Kubernetes nodes, so racks are unknown; install it with rbac.nodes=true"
        return "Forbidden", f"{message}: {error}"
    labels = {} if found is None else found["metadata"].get("labels") or {}
    rack = labels.get(key)
    if rack:
        return str(rack)
    message = f"its Kubernetes node {kubernetes_node} has no label {key}, which names the rack"
    return "RackMissing", f"{message}; kubectl label node {kubernetes_node} {key}=..."
