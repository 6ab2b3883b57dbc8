"""The objects that a Cluster owns on Kubernetes: finds, writes and prunes them.

They are written only if they differ, so that two writers cannot overwrite each other in turn. Fields that other clients
added are removed, except those of `managed_fields.FIELDS_OF_OTHERS`. Only objects with the Cluster's labels and its uid
as owner are pruned: all others stay.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ottla_operator.adapters.kubernetes.managed_fields import is_as_written, repair
from ottla_operator.errors import ApiError, HostError
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER
from ottla_operator.ports.object_store import ObjectStore

PRUNED = ("Service", "NetworkPolicy", "PodDisruptionBudget")
"""Kinds of which a Cluster may need fewer than before. Never a StatefulSet: pools stay, with their volumes."""
UNWANTED = "no "
"""Prefix in `differences` of an object that is to be removed."""


def key_of(document: Document) -> str:
    """Return ``Kind/name``."""
    return f"{document['kind']}/{document['metadata']['name']}"


class Children:
    """The objects of the clusters of one namespace."""

    def __init__(self, api: ObjectStore, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def find(self, cluster: Cluster, wanted: Sequence[Document]) -> Mapping[str, Document]:
        """Return the existing objects by `key_of`: those of ``wanted``, and those that were wanted before."""
        found: dict[str, Document] = {}
        for kind in PRUNED:
            # An object without its labels is not found, and so is written again if it is wanted; it is never removed.
            listed = await self._api.objects(kind, self._namespace, f"{CLUSTER_LABEL}={cluster.name}")
            found |= {key_of(it): it for it in listed if _is_child(it, cluster)}
        for document in wanted:
            if document["kind"] not in PRUNED:
                there = await self._api.get(document["kind"], self._namespace, document["metadata"]["name"])
                if there is not None:
                    found[key_of(document)] = there
        return found

    async def publish(self, cluster: Cluster, wanted: Sequence[Document], outdated: Collection[str]) -> None:
        """Write and remove the objects that `differences` named."""
        for document in wanted:
            if key_of(document) in outdated:
                await self.write(cluster, document)
        for entry in outdated:
            if entry.startswith(UNWANTED):
                await self._remove(cluster, *entry.removeprefix(UNWANTED).split("/"))

    async def write(self, cluster: Cluster, document: Document) -> None:
        """Apply ``document``, and remove the fields that other clients added to the object.

        Raises:
            HostError: an object of this name does not belong to the Cluster.
        """
        kind, name = document["kind"], document["metadata"]["name"]
        found = await self._api.get(kind, self._namespace, name)
        if found is not None and not may_adopt(found, cluster):
            raise HostError("NameTaken", f"{kind} {name} is not this Cluster's; remove it, or rename this Cluster")
        if found is not None and (operations := repair(found, document)):
            await self._api.patch(found, operations)
        try:
            await self._api.apply(document)
        except ApiError as error:
            freed = _with_any_port(document)
            if error.status != 422 or freed == document:
                raise
            # Another Service has the port that clients knew: another one has to be advertised.
            await self._api.apply(freed)

    async def _remove(self, cluster: Cluster, kind: str, name: str) -> None:
        found = await self._api.get(kind, self._namespace, name)
        if found is not None and _is_child(found, cluster):
            await self._api.delete(kind, self._namespace, name)


def differences(wanted: Sequence[Document], found: Mapping[str, Document]) -> Iterator[str]:
    """Yield, in order, objects of ``wanted`` that are missing or differ, and those that are not wanted any more."""
    keys = [key_of(document) for document in wanted]
    for key, document in zip(keys, wanted, strict=True):
        if key not in found or not is_as_written(found[key], document):
            yield key
    for key in found:
        if key not in keys and key.partition("/")[0] in PRUNED:
            yield f"{UNWANTED}{key}"


def _controller(document: Document) -> Document | None:
    owners = document["metadata"].get("ownerReferences") or ()
    return next((it for it in owners if it.get("controller")), None)


def _is_managed(document: Document) -> bool:
    return (document["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER


def _is_child(document: Document, cluster: Cluster) -> bool:
    labels, owner = document["metadata"].get("labels") or {}, _controller(document)
    is_labelled = _is_managed(document) and labels.get(CLUSTER_LABEL) == cluster.name
    return is_labelled and owner is not None and owner["uid"] == cluster.metadata.uid


def may_adopt(document: Document, cluster: Cluster) -> bool:
    """Tell whether an object is the Cluster's, a former Cluster's of this name, or was restored without an owner."""
    owner = _controller(document)
    if owner is None:
        return _is_managed(document)
    return (owner["kind"], owner["name"]) == ("Cluster", cluster.name)


def _with_any_port(document: Document) -> Document:
    if document["kind"] != "Service":
        return document
    ports = [{key: value for key, value in it.items() if key != "nodePort"} for it in document["spec"]["ports"]]
    return {**document, "spec": {**document["spec"], "ports": ports}}
