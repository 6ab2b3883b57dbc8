"""The volumes of a pool's nodes: claim templates of its StatefulSet, mounts, and patches of existing claims.

A StatefulSet creates the claims and never changes them: `claim_patch` is the operator's change to an existing one.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.nodes import node_name, node_of_name
from ottla_operator.model.objects.metadata import CLUSTER_ID_ANNOTATION, labels, owner
from ottla_operator.model.quantity import canonical_quantity, compare_quantities
from ottla_operator.model.storage import DATA_VOLUME, Volume

DATA = "/var/lib/ottla"
_FURTHER = "/var/lib/ottla-volumes"


class ClaimPlace(NamedTuple):
    """Volume, pool and ordinal of a claim, from its name."""

    volume: str
    pool: Pool
    ordinal: int


def claim_name(cluster: Cluster, pool: Pool, volume: str, ordinal: int) -> str:
    """Return the name that a StatefulSet gives the claim; a volume's name has no dash, so no two are the same."""
    return f"{volume}-{node_name(cluster, pool, ordinal)}"


def place_of_claim(cluster: Cluster, name: str) -> ClaimPlace | None:
    """Return the place of the claim called ``name``; None if it belongs to no pool of ``cluster``."""
    volume, _, node = name.partition("-")
    found = node_of_name(cluster, node)
    return None if found is None else ClaimPlace(volume, *found)


def directory(volume: str) -> str:
    """Return the log directory on a volume."""
    return f"{_mount_path(volume)}/data"


def log_directories(pool: Pool, without: Collection[str]) -> str:
    """Return ``log.dirs`` of pods of ``pool``."""
    return ",".join(directory(volume.name) for volume in _mounted(pool, without))


def mounts(pool: Pool, without: Collection[str]) -> list[Document]:
    return [{"name": volume.name, "mountPath": _mount_path(volume.name)} for volume in _mounted(pool, without)]


def volume_claim_templates(cluster: Cluster, pool: Pool, without: Collection[str]) -> list[Document]:
    return [_volume_claim_template(cluster, pool, volume) for volume in _mounted(pool, without)]


def claim_patch(cluster: Cluster, volume: Volume | None, found: Document) -> Document | None:
    """Return the patch of an existing claim; None if it is as desired.

    It grows to the size of ``volume``, if the spec still has it; the Cluster owns it with ``deletionPolicy: Delete``
    only.
    """
    request = found["spec"]["resources"]["requests"]["storage"]
    grows = volume is not None and compare_quantities(request, volume.size) < 0
    ours = owner(cluster)
    is_owned = any(it.get("uid") == ours["uid"] for it in found["metadata"].get("ownerReferences") or ())
    if not grows and is_owned == cluster.deletes_volumes:
        return None
    metadata = {name: found["metadata"][name] for name in ("name", "namespace", "uid") if name in found["metadata"]}
    if cluster.deletes_volumes:
        metadata["ownerReferences"] = [ours]
    size = canonical_quantity(volume.size) if grows and volume is not None else request
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {"resources": {"requests": {"storage": size}}},
    }


def _mounted(pool: Pool, without: Collection[str]) -> Iterator[Volume]:
    return (volume for volume in pool.storage.volumes if volume.name not in without)


def _mount_path(volume: str) -> str:
    return DATA if volume == DATA_VOLUME else f"{_FURTHER}/{volume}"


def _volume_claim_template(cluster: Cluster, pool: Pool, volume: Volume) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": canonical_quantity(volume.size)}},
    }
    if volume.storage_class_name is not None:
        spec["storageClassName"] = volume.storage_class_name
    return {
        "metadata": {
            "name": volume.name,
            "labels": labels(cluster, pool),
            "annotations": {CLUSTER_ID_ANNOTATION: cluster.cluster_id},
        },
        "spec": spec,
    }
