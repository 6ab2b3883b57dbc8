"""Volume claims of a cluster: patches of existing claims, and volumes that pods cannot get yet.

A StatefulSet creates claims and never changes them, and its claim templates are immutable: another list of templates
takes another StatefulSet, which adopts pods and claims of the one before (`KubernetesHost.publish`).

Its controller stops at the first pod that lacks a volume of the list, before it creates missing pods (batches of
1, 2, 4, ... in order: `slowStartBatch` in Kubernetes' pkg/controller/statefulset). So pods get a new volume in their
order, and while a pod is missing behind another that still lacks the volume, the list omits it (`deferred_volumes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Rejected, Underway
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.nodes import DesiredCluster, node_name, ordinal_of
from ottla_operator.model.objects.metadata import CLUSTER_ID_ANNOTATION, CLUSTER_LABEL
from ottla_operator.model.objects.volumes import claim_name, claim_patch, place_of_claim
from ottla_operator.model.quantity import compare_quantities
from ottla_operator.model.storage import Volume
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.object_store import ObjectStore
from ottla_operator.ports.volume_claims import ObservedClaim

CLAIM = "PersistentVolumeClaim"
_REJECTION_STATUSES = frozenset({403, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClaims:
    """Observed claims, patches, and problems."""

    patches: Mapping[str, Document]
    """By ``PersistentVolumeClaim/<name>``: the patch to apply."""
    observed: tuple[ObservedClaim, ...]
    trouble: Rejected | Underway | None
    lost: Mapping[str, str]
    """By node: a message about a claim whose volume is gone."""
    names: frozenset[str]
    """Of all existing claims."""


class Claims:
    """The claims of one namespace, during one reconciliation: a rejected patch is not repeated in it."""

    def __init__(self, api: ObjectStore, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._rejected: dict[str, str] = {}

    async def observe(self, cluster: Cluster) -> ObservedClaims:
        found = await self._api.objects(CLAIM, self._namespace, f"{CLUSTER_LABEL}={cluster.name}")
        patches: dict[str, Document] = {}
        observed: list[ObservedClaim] = []
        lost: dict[str, str] = {}
        growing: list[str] = []
        for claim in sorted(found, key=lambda it: str(it["metadata"]["name"])):
            name = claim["metadata"]["name"]
            place = place_of_claim(cluster, name)
            if place is None or claim["metadata"].get("deletionTimestamp"):
                continue
            node = node_name(cluster, place.pool, place.ordinal)
            if (claim["metadata"].get("annotations") or {}).get(CLUSTER_ID_ANNOTATION) == cluster.cluster_id:
                uid = claim["metadata"].get("uid", "")
                observed.append(ObservedClaim(name=name, uid=uid, node=node))
            if claim.get("status", {}).get("phase") == "Lost":
                lost[node] = _lost(name, claim)
            volume = next((it for it in place.pool.storage.volumes if it.name == place.volume), None)
            patch = claim_patch(cluster, volume, claim)
            if patch is not None and name not in self._rejected:
                patches[f"{CLAIM}/{name}"] = patch
            if (progress := _growing(claim, volume)) is not None:
                growing.append(f"{name}: {progress}")
        return ObservedClaims(
            patches=patches,
            observed=tuple(observed),
            trouble=_trouble(self._rejected, growing),
            lost=lost,
            names=frozenset(it["metadata"]["name"] for it in found),
        )

    async def patch(self, look: ObservedClaims, names: Sequence[str]) -> None:
        """Apply the patches ``names``; a rejected one is recorded, and does not stop the others."""
        for name in names:
            patch = look.patches.get(name)
            if patch is None:
                continue
            try:
                await self._api.apply(patch)
            except ApiError as error:
                if error.status not in _REJECTION_STATUSES:
                    raise
                self._rejected[patch["metadata"]["name"]] = str(error)


def deferred_volumes(cluster: Cluster, pool: Pool, names: Sequence[str], pods: Sequence[Document]) -> frozenset[str]:
    """Return the volumes that pods of ``pool`` cannot get yet; ``names`` are the nodes that have to run."""
    ordinals = _lacking(cluster, pool, pods)
    if not ordinals:
        return frozenset()
    there = {pod["metadata"]["name"] for pod in pods}
    last_missing = max((ordinal_of(cluster, pool, name) for name in names if name not in there), default=-1)
    if last_missing < min(ordinals):
        return frozenset()
    return frozenset().union(*ordinals.values())


def defer_restarts(desired: DesiredCluster, pods: Sequence[Document], seen: dict[str, ObservedNode]) -> None:
    """Remove the revision, in place, of nodes that must not be restarted yet: others get their volumes first."""
    revisions = {node.name: node.revision for node in desired.nodes}
    for pool in desired.cluster.pools:
        lacking = sorted(_lacking(desired.cluster, pool, pods))
        for ordinal in lacking[1:]:
            node = seen.get(node_name(desired.cluster, pool, ordinal))
            if node is None or node.revision is None:
                continue
            is_held = node.revision.startswith(f"{revisions.get(node.name)}-")
            if is_held or node.state is NodeState.READY:
                seen[node.name] = replace(node, revision=None)


def _lacking(cluster: Cluster, pool: Pool, pods: Sequence[Document]) -> dict[int, frozenset[str]]:
    """Return the volumes that pods lack, by ordinal; terminating pods count."""
    wanted = frozenset(volume.name for volume in pool.storage.further)
    found: dict[int, frozenset[str]] = {}
    for pod in pods if wanted else ():
        ordinal = ordinal_of(cluster, pool, pod["metadata"]["name"])
        if ordinal < 0:
            continue
        volumes = pod.get("spec", {}).get("volumes") or []
        has = {
            it["name"]
            for it in volumes
            if it.get("persistentVolumeClaim", {}).get("claimName") == claim_name(cluster, pool, it["name"], ordinal)
        }
        if wanted - has:
            found[ordinal] = wanted - has
    return found


def _lost(name: str, claim: Document) -> str:
    volume = claim["spec"].get("volumeName", "")
    return (
        f"the volume {volume} of its claim {name} is gone; delete the claim and then the pod, and the node starts with "
        "an empty disk: other replicas fill it"
    )


def _growing(claim: Document, volume: Volume | None) -> str | None:
    """Return the progress of a claim that is to grow; None once it has the requested size."""
    status, request = claim.get("status", {}), claim["spec"]["resources"]["requests"]["storage"]
    capacity = status.get("capacity", {}).get("storage")
    if volume is None or capacity is None or compare_quantities(capacity, request) >= 0:
        return None
    said = [it for it in status.get("conditions") or () if it.get("status") == "True"]
    details = "; ".join(f"{it['type']}: {it.get('message') or 'under way'}" for it in said)
    return f"{capacity} of {request}{f' ({details})' if details else ''}"


def _trouble(rejected: Mapping[str, str], growing: Sequence[str]) -> Rejected | Underway | None:
    if rejected:
        name, message = min(rejected.items())
        more = f" and {len(rejected) - 1} more" if len(rejected) > 1 else ""
        return Rejected("VolumeCannotGrow", f"claim {name}{more} could not be changed: {message}")
    if growing:
        return Underway("VolumesGrowing", f"waiting for {len(growing)} volumes to grow, first {growing[0]}")
    return None
