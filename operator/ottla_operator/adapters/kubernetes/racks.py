"""The racks of pods: a pod learns from its annotation, which the operator writes, in which rack its machine stands.

Pods themselves may not read machines. The init container of `model.objects.placement` waits for the annotation.
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
class RackLook:
    """What pods have to be told."""

    annotations: Mapping[str, Document]
    """By ``Pod/<name>``: what has to be applied."""
    missing: Mapping[str, tuple[str, str]]
    """By pod: reason and message where nobody can tell the rack."""


async def missing_racks(api: ObjectStore, cluster: Cluster, pods: Sequence[Document]) -> RackLook:
    """Look up the machines of pods that have been given one and not been told its rack; mostly there are none."""
    annotations: dict[str, Document] = {}
    missing: dict[str, tuple[str, str]] = {}
    for pod in pods if cluster.rack_key is not None else ():
        name, machine = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName")
        if machine is None or not _waits(pod):
            continue
        rack = await _rack(api, machine, str(cluster.rack_key))
        if isinstance(rack, str):
            annotations[f"Pod/{name}"] = rack_annotation(pod, rack)
        else:
            missing[name] = rack
    return RackLook(annotations=annotations, missing=missing)


def _waits(pod: Document) -> bool:
    metadata = pod["metadata"]
    has_rack = (metadata.get("annotations") or {}).get(RACK_ANNOTATION)
    containers = pod["spec"].get("initContainers") or ()
    is_told = has_rack or metadata.get("deletionTimestamp")
    return not is_told and any(it["name"] == RACK_CONTAINER for it in containers)


async def _rack(api: ObjectStore, machine: str, key: str) -> str | tuple[str, str]:
    """Return the rack, or reason and message."""
    try:
        found = await api.get("Node", "", machine)
    except ApiError as error:
        if error.status != 403:
            raise
        words = "the operator may not read machines, and cannot tell the rack; install it with rbac.nodes=true"
        return "Forbidden", f"{words}: {error}"
    labels = {} if found is None else found["metadata"].get("labels") or {}
    rack = labels.get(key)
    if rack:
        return str(rack)
    words = f"its machine {machine} has no label {key}, which names the rack"
    return "RackMissing", f"{words}; kubectl label node {machine} {key}=..."
