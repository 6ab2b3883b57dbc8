"""The claims of a cluster's volumes: what of them has to be changed, and which disks pods cannot get yet.

A StatefulSet makes claims and never changes them, and its own list of them is fixed: another list is another
StatefulSet, which takes over pods and claims of the one before (`KubernetesHost.publish`).

Its controller stops at the first pod that lacks a volume of the list, before it makes pods that are missing (batches of
1, 2, 4, ... in order: `slowStartBatch` in Kubernetes' pkg/controller/statefulset). So pods get a further disk in their
order, and while one is missing behind another that still lacks the disk, the list does not have it (`volumes_to_come`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Refused, Underway
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
_REFUSALS = frozenset({403, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLook:
    """What claims say, and what the operator says of them."""

    patches: Mapping[str, Document]
    """By ``PersistentVolumeClaim/<name>``: what has to be applied."""
    observed: tuple[ObservedClaim, ...]
    trouble: Refused | Underway | None
    lost: Mapping[str, str]
    """By node: words about a claim whose volume is gone."""


class Claims:
    """The claims of one namespace, during one pass: what is refused once is not asked for again in it."""

    def __init__(self, api: ObjectStore, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._refused: dict[str, str] = {}

    async def look(self, cluster: Cluster) -> ClaimLook:
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
            if patch is not None and name not in self._refused:
                patches[f"{CLAIM}/{name}"] = patch
            if (words := _growing(claim, volume)) is not None:
                growing.append(f"{name}: {words}")
        return ClaimLook(patches=patches, observed=tuple(observed), trouble=_trouble(self._refused, growing), lost=lost)

    async def patch(self, look: ClaimLook, names: Sequence[str]) -> None:
        """Apply what ``look`` found; a refusal is remembered, and keeps nobody else from going on."""
        for name in names:
            patch = look.patches.get(name)
            if patch is None:
                continue
            try:
                await self._api.apply(patch)
            except ApiError as error:
                if error.status not in _REFUSALS:
                    raise
                self._refused[patch["metadata"]["name"]] = str(error)


def volumes_to_come(cluster: Cluster, pool: Pool, names: Sequence[str], pods: Sequence[Document]) -> frozenset[str]:
    """Return the volumes that pods of ``pool`` cannot get yet; ``names`` are the nodes that have to run."""
    ordinals = _lacking(cluster, pool, pods)
    if not ordinals:
        return frozenset()
    there = {pod["metadata"]["name"] for pod in pods}
    last_missing = max((ordinal_of(cluster, pool, name) for name in names if name not in there), default=-1)
    if last_missing < min(ordinals):
        return frozenset()
    return frozenset().union(*ordinals.values())


def in_order(desired: DesiredCluster, pods: Sequence[Document], seen: dict[str, ObservedNode]) -> None:
    """Take the revision, in place, from nodes that a restart would bring no further: others get their disks first."""
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
    """Return the volumes that pods lack, by ordinal; a pod that ends counts."""
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
        f"the volume {volume} of its claim {name} is gone; delete the claim and then the pod, and the node begins with "
        "an empty disk: other replicas fill it"
    )


def _growing(claim: Document, volume: Volume | None) -> str | None:
    """Return what a claim that has been asked to grow says; None when it is as large as it was asked to be."""
    status, request = claim.get("status", {}), claim["spec"]["resources"]["requests"]["storage"]
    capacity = status.get("capacity", {}).get("storage")
    if volume is None or capacity is None or compare_quantities(capacity, request) >= 0:
        return None
    said = [it for it in status.get("conditions") or () if it.get("status") == "True"]
    words = "; ".join(f"{it['type']}: {it.get('message') or 'under way'}" for it in said)
    return f"{capacity} of {request}{f' ({words})' if words else ''}"


def _trouble(refused: Mapping[str, str], growing: Sequence[str]) -> Refused | Underway | None:
    if refused:
        name, words = min(refused.items())
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        return Refused("VolumeCannotGrow", f"claim {name}{more} could not be changed: {words}")
    if growing:
        return Underway("VolumesGrowing", f"waiting for {len(growing)} volumes to grow, first {growing[0]}")
    return None
