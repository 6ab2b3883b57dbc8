"""Admission of pods that do not exist yet: the API server's response to dry runs of the very pods and claims.

A StatefulSet has no condition for a pod whose creation is rejected, and the API server checks no template for what it
rejects in a pod: a missing PriorityClass, a ResourceQuota, a LimitRange, Pod Security, a webhook. Events of the
StatefulSet's controller have the error, but only after a pod was stopped. A dry run also works before that, and shows
at once that the cause is gone. It needs the permission to create pods and claims: no more than the operator has by its
StatefulSets, which create any pod and claim.

The StatefulSet's controller retries with a back-off of up to 1,000 s (DefaultTypedControllerRateLimiter in client-go).
So a StatefulSet is marked while it lacks a rejected pod: the removal of the mark lets its controller retry at once. The
mark is the time since when: a quota that was full rejects the successor of a deleted pod for a moment.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from ottla_operator.adapters.kubernetes.children import key_of
from ottla_operator.adapters.kubernetes.pod_quota import fits_in_place_of
from ottla_operator.errors import ApiError
from ottla_operator.model.document import Document
from ottla_operator.model.objects.metadata import REJECTED_ANNOTATION, REVISION_ANNOTATION
from ottla_operator.model.timestamps import instant, timestamp, valid_timestamp
from ottla_operator.ports.object_store import ClusterObjectStore

MARK, UNMARK = "rejected ", "admitted "
"""Prefixes in the names of what `Publish` writes: the mark of a StatefulSet is to be set, or to be removed."""
_REJECTION_STATUSES = frozenset({400, 403, 422})
_MOMENT_S = 3
_UNKNOWN = ('cannot create resource "', "does not support dry run")
"""In errors about the dry run, which tell nothing about the object: without RBAC for it, or with an old webhook."""


async def find_rejections(
    api: ClusterObjectStore,
    stateful_set: Document,
    missing: Sequence[str],
    outdated: Sequence[Document],
    claims: Collection[str],
) -> Mapping[str, str]:
    """Return, by node, why the API server rejects the pods that ``stateful_set`` creates, in its own words.

    Args:
        api: the API server.
        stateful_set: as it is written.
        missing: nodes without a pod. They have one template: the first stands for all.
        outdated: pods that are deleted for the sake of pods with this template.
        claims: names of the existing claims.
    """
    found: dict[str, str] = {}
    if missing:
        found |= dict.fromkeys(missing, await _missing_rejection(api, stateful_set, missing[0], claims))
    if outdated:
        name = outdated[0]["metadata"]["name"]
        pod = pod_of(stateful_set, name)
        # A name of its own: the replaced pod exists, and quotas count both.
        pod["metadata"]["name"] = f"{name}-dry-run"
        message = await _rejection(api, pod)
        found |= {
            it["metadata"]["name"]: "" if fits_in_place_of(it, pod, message) else message for it in outdated if message
        }
    return {name: message for name, message in found.items() if message}


def is_outdated(pod: Document, stateful_set: Document) -> bool:
    """Tell whether the pod runs with another revision than new pods of ``stateful_set``."""
    wanted = stateful_set["spec"]["template"]["metadata"]["annotations"][REVISION_ANNOTATION]
    found = pod["metadata"].get("annotations") or {}
    return not pod["metadata"].get("deletionTimestamp") and found.get(REVISION_ANNOTATION) not in (None, wanted)


def pod_of(stateful_set: Document, name: str) -> Document:
    """Return the pod that the StatefulSet's controller creates.

    Source: newStatefulSetPod in Kubernetes' pkg/controller/statefulset. The owner reference does not block the owner's
    deletion: some API servers require another permission for that.
    """
    spec, template = stateful_set["spec"], stateful_set["spec"]["template"]
    labels = {
        **template["metadata"]["labels"],
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
    }
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": stateful_set["metadata"]["name"]}
    uid = stateful_set["metadata"].get("uid")
    volumes = [
        {"name": it["metadata"]["name"], "persistentVolumeClaim": {"claimName": f"{it['metadata']['name']}-{name}"}}
        for it in spec["volumeClaimTemplates"]
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template["metadata"],
            "name": name,
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [{**owner, "uid": uid, "controller": True}] if uid else [],
        },
        "spec": {
            **template["spec"],
            "hostname": name,
            "subdomain": spec["serviceName"],
            "volumes": [*volumes, *template["spec"]["volumes"]],
        },
    }


def marks(found: Mapping[str, Document], rejected: Collection[str]) -> Iterator[str]:
    """Yield the marks to set or to remove; ``rejected`` are the StatefulSets that lack a rejected pod, by `key_of`."""
    for key, document in found.items():
        if document["kind"] == "StatefulSet" and _is_marked(document) != (key in rejected):
            yield f"{MARK if key in rejected else UNMARK}{key}"


def is_lasting(stateful_set: Document, now: datetime) -> bool:
    """Tell whether a pod of the StatefulSet has been rejected for longer than a moment, by its mark."""
    since = (stateful_set["metadata"].get("annotations") or {}).get(REJECTED_ANNOTATION)
    if since is None:
        return False
    return not valid_timestamp(since) or (now - instant(since)).total_seconds() >= _MOMENT_S


async def write_marks(
    api: ClusterObjectStore, found: Mapping[str, Document], outdated: Sequence[str], now: datetime
) -> None:
    """Write the `marks` among ``outdated``, unless the StatefulSet was changed since (409 Conflict)."""
    for document in found.values():
        key = key_of(document)
        for prefix, value in ((MARK, {REJECTED_ANNOTATION: timestamp(now)}), (UNMARK, {})):
            if f"{prefix}{key}" in outdated:
                others = document["metadata"].get("annotations") or {}
                kept = {name: it for name, it in others.items() if name != REJECTED_ANNOTATION}
                operation = {"op": "add", "path": "/metadata/annotations", "value": {**kept, **value}}
                await api.patch(document, [operation])


def _is_marked(document: Document) -> bool:
    return REJECTED_ANNOTATION in (document["metadata"].get("annotations") or {})


async def _missing_rejection(
    api: ClusterObjectStore, stateful_set: Document, name: str, claims: Collection[str]
) -> str:
    """Return why the API server rejects a missing pod, or a missing claim of it; empty if it does not."""
    for template in stateful_set["spec"]["volumeClaimTemplates"]:
        claim_name = f"{template['metadata']['name']}-{name}"
        if claim_name not in claims:
            metadata = {**template["metadata"], "name": claim_name, "namespace": stateful_set["metadata"]["namespace"]}
            claim = {**template, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            if message := await _rejection(api, claim):
                return message
    return await _rejection(api, pod_of(stateful_set, name))


async def _rejection(api: ClusterObjectStore, document: Document) -> str:
    """Return why the API server rejects the object, in its own words; empty if it does not, or if that is unknown.

    Raises:
        ApiError: a failure that may be over at the next call.
    """
    try:
        await api.dry_run_create(document)
    except ApiError as error:
        # 409: its controller was faster.
        if error.is_conflict or error.is_terminating or any(words in error.message for words in _UNKNOWN):
            return ""
        # A webhook chooses its status; one that does not respond is an internal error, also for the controller.
        if error.status in _REJECTION_STATUSES or "webhook" in error.message:
            return error.message
        raise
    return ""
