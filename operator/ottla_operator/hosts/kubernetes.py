"""Nodes as pods: a StatefulSet per pool, written by server-side apply; see `model.kubernetes_objects`."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ottla_operator.errors import HostError
from ottla_operator.hosts.kubernetes_secrets import KubernetesSecrets
from ottla_operator.hosts.object_store import ObjectStore, covers
from ottla_operator.hosts.operator_access import OperatorAccess, operator_access
from ottla_operator.hosts.shown_certificates import with_certificates
from ottla_operator.model import kubernetes_objects
from ottla_operator.model.document import Document
from ottla_operator.model.kubernetes_objects import CLUSTER_ID_ANNOTATION, CLUSTER_LABEL, REVISION_ANNOTATION
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster
from ottla_operator.reconcile.cluster import ObservedCluster
from ottla_operator.reconcile.nodes import NodeState, ObservedNode

# Reasons of a waiting container that are no part of an ordinary start.
_FAILURES = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)


class KubernetesHost:
    """The `Host` port over the Kubernetes API, for the clusters of one namespace."""

    def __init__(self, api: ObjectStore, namespace: str, default_image: str) -> None:
        self._api = api
        self._namespace = namespace
        self._default_image = default_image
        self._secret_store = KubernetesSecrets(api, namespace)

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        if cluster.known_cluster_id is None:
            # Volumes of an earlier Cluster of this name belong to it, and so do the id and the quorum on them.
            cluster = replace(cluster, known_cluster_id=await self._cluster_id_on_volumes(cluster))
        return desired_cluster(
            cluster,
            lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal),
            image=self._image(cluster),
            leaving=leaving,
        )

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        return kubernetes_objects.bootstrap_servers(desired.cluster, listener.port)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return kubernetes_objects.bootstrap_servers(desired.cluster, kubernetes_objects.NODES_PORT)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        cluster = desired.cluster
        is_plain = cluster.tls is None
        begin = self.bootstrap_servers(desired, cluster.listeners[0]) if is_plain else self.nodes_servers(desired)
        return await operator_access(cluster, begin, self._secret_store)

    def certificate_names(self, cluster: Cluster) -> tuple[str, ...]:
        return kubernetes_objects.certificate_names(cluster)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        outdated, names = [], [node.name for node in desired.nodes]
        for wanted in self._objects(desired):
            kind, name = wanted["kind"], wanted["metadata"]["name"]
            found = await self._api.get(kind, self._namespace, name)
            if found is None or not covers(found, wanted):
                outdated.append(f"{kind}/{name}")
            if found is not None and kind == "StatefulSet":
                # Nodes that are to leave are there until its number says otherwise, and so are pods that are missing.
                names += [f"{name}-{ordinal}" for ordinal in range(found["spec"]["replicas"])]
        pods = await self._api.objects("Pod", self._namespace, f"{CLUSTER_LABEL}={desired.cluster.name}")
        seen = {
            pod["metadata"]["name"]: observed_node(pod, has_successor=pod["metadata"]["name"] in names) for pod in pods
        }
        # A pod that is not there will be made by the StatefulSet controller; nobody has to start it.
        for name in names:
            if name not in seen:
                seen[name] = ObservedNode(
                    name=name,
                    state=NodeState.STARTING,
                    reason="PodMissing",
                    message="its StatefulSet has not made the pod yet",
                )
        shown = await with_certificates(seen, desired, self._secret_store)
        return ObservedCluster(outdated=tuple(outdated), nodes=shown)

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        for document in self._objects(desired):
            if f"{document['kind']}/{document['metadata']['name']}" in outdated:
                await self._api.apply(document)

    async def start_node(self, node: DesiredNode) -> None:
        raise HostError("Unsupported", f"pod {node.name} is started by its StatefulSet, not by the operator")

    async def restart_node(self, node: DesiredNode) -> None:
        await self._api.delete("Pod", self._namespace, node.name)

    async def remove_node(self, name: str) -> None:
        await self._api.delete("Pod", self._namespace, name)

    def _objects(self, desired: DesiredCluster) -> list[Document]:
        return kubernetes_objects.objects(desired, self._image(desired.cluster))

    def _image(self, cluster: Cluster) -> str:
        return cluster.image or self._default_image

    async def _cluster_id_on_volumes(self, cluster: Cluster) -> str | None:
        claims = await self._api.objects("PersistentVolumeClaim", self._namespace, f"{CLUSTER_LABEL}={cluster.name}")
        found = {
            identity
            for claim in claims
            if (identity := (claim["metadata"].get("annotations") or {}).get(CLUSTER_ID_ANNOTATION))
        }
        if len(found) > 1:
            raise HostError(
                "VolumesOfSeveralClusters",
                f"the volumes labelled {CLUSTER_LABEL}={cluster.name} carry the ids {', '.join(sorted(found))}; "
                "remove the claims of the cluster that is not wanted",
            )
        return found.pop() if found else None


def observed_node(pod: Document, *, has_successor: bool) -> ObservedNode:
    """Return what a pod says of its node; one that ends without a successor is stopped for good."""
    metadata, status = pod["metadata"], pod.get("status", {})
    name = metadata["name"]
    if metadata.get("deletionTimestamp"):
        # A successor comes with the published configuration: there is nothing more to restart.
        return ObservedNode(
            name=name,
            state=NodeState.STARTING if has_successor else NodeState.STOPPING,
            reason="PodTerminating",
            message="its former pod is shutting down" if has_successor else "its pod is shutting down",
        )
    revision = (metadata.get("annotations") or {}).get(REVISION_ANNOTATION)
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    if conditions.get("Ready", {}).get("status") == "True":
        return ObservedNode(name=name, state=NodeState.READY, revision=revision)
    reason, message = _trouble(status, conditions)
    state = NodeState.UNREADY if _has_been_ready(status, conditions) else NodeState.STARTING
    return ObservedNode(
        name=name,
        state=NodeState.FAILED if reason else state,
        revision=revision,
        reason=reason or "NodeNotReady",
        message=message or "its pod is not ready yet",
    )


def _has_been_ready(status: Document, conditions: dict[str, Document]) -> bool:
    """Tell whether a pod that is not ready was so since its container started: then it has changed since."""
    changed_at = conditions.get("Ready", {}).get("lastTransitionTime", "")
    running = [it["state"]["running"] for it in status.get("containerStatuses", []) if "running" in it.get("state", {})]
    # Both are RFC 3339 in UTC by whole seconds, which sort as text.
    return any(changed_at > it.get("startedAt", changed_at) for it in running)


def _trouble(status: Document, conditions: dict[str, Document]) -> tuple[str, str]:
    """Return reason and message of what keeps a pod from starting; two empty texts when nothing does."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("reason") == "Unschedulable":
        return "Unschedulable", scheduled.get("message", "")
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _FAILURES:
            last = container.get("lastState", {}).get("terminated", {})
            words = [waiting.get("message", ""), (last.get("message") or "").strip()]
            return waiting["reason"], ": ".join(word for word in words if word)
    return "", ""
