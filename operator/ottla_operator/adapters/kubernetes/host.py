"""Nodes as pods: a StatefulSet per pool, written by server-side apply; see `model.kubernetes_objects`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ottla_operator.adapters.kafka.operator_access import operator_access
from ottla_operator.adapters.kafka.presented_certificates import with_certificates
from ottla_operator.adapters.kubernetes.admission import find_rejections, is_lasting, is_outdated, marks, write_marks
from ottla_operator.adapters.kubernetes.children import UNWANTED, Children, differences, key_of, may_adopt
from ottla_operator.adapters.kubernetes.comparison import covers
from ottla_operator.adapters.kubernetes.disruption_budget import disruptions_allowed
from ottla_operator.adapters.kubernetes.external_addresses import read_outside
from ottla_operator.adapters.kubernetes.pod_events import find_warnings
from ottla_operator.adapters.kubernetes.pod_state import missing_node, observed_node
from ottla_operator.adapters.kubernetes.racks import PodRacks, find_racks
from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.adapters.kubernetes.volume_claims import (
    CLAIM,
    Claims,
    ObservedClaims,
    defer_restarts,
    deferred_volumes,
)
from ottla_operator.errors import HostError
from ottla_operator.model import kubernetes_objects
from ottla_operator.model.document import Document
from ottla_operator.model.images import broker_image, version_of
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster
from ottla_operator.model.objects import addresses
from ottla_operator.model.objects.disruption import disruption_budget
from ottla_operator.model.objects.metadata import CLUSTER_ID_ANNOTATION, CLUSTER_LABEL
from ottla_operator.model.objects.network_policy import OperatorPods, network_policy
from ottla_operator.model.objects.pods import FILE_END
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.object_store import ClusterObjectStore
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.volume_claims import ObservedClaim

_IMMUTABLE = ("podManagementPolicy", "selector", "serviceName", "volumeClaimTemplates")
"""Fields of a StatefulSet's spec that the API server never changes."""


class KubernetesHost:
    """The `Host` port over the Kubernetes API, for the clusters of one namespace."""

    def __init__(
        self,
        api: ClusterObjectStore,
        namespace: str,
        default_image: str,
        operator: OperatorPods | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Run clusters of ``namespace``; ``operator`` identifies the operator's own pods in network policies."""
        self._api = api
        self._namespace = namespace
        self._default_image = default_image
        self._operator = operator
        self._now = now
        self._secret_store = KubernetesSecrets(api, namespace)
        self._children = Children(api, namespace)
        self._claims = Claims(api, namespace)

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        if cluster.known_cluster_id is None:
            # Volumes of an earlier Cluster of this name belong to it, and so do the id and the quorum on them.
            cluster = replace(cluster, known_cluster_id=await self._cluster_id_on_volumes(cluster))
        outside = await read_outside(self._api, self._namespace, cluster)
        desired = desired_cluster(
            cluster,
            lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal, outside),
            image=broker_image(cluster, self._default_image),
            leaving=leaving,
        )
        return replace(desired, outside=outside, version=version_of(desired.image, self._default_image))

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        if listener.is_outside and desired.outside is not None:
            return desired.outside.bootstrap_addresses(desired.cluster, listener)
        return addresses.bootstrap_servers(desired.cluster, listener.port)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return addresses.bootstrap_servers(desired.cluster, addresses.NODES_PORT)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return await operator_access(self, desired, self._secret_store)

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        outside = () if desired.outside is None else desired.outside.advertised_hosts(desired.cluster)
        return (*addresses.certificate_names(desired.cluster), *outside)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        objects = await self._observe_objects(desired)
        names, pods = objects.names, objects.pods
        seen = {
            pod["metadata"]["name"]: observed_node(pod, has_successor=pod["metadata"]["name"] in names) for pod in pods
        }
        rejections, now = await self._rejections(objects), self._now()
        lasting = {key for key, it in objects.found.items() if is_lasting(it, now)}
        missing = [name for name in names if name not in seen]
        seen |= {name: replace(seen[name], rejection=it) for name, it in rejections.items() if name in seen}
        # The StatefulSet controller will create a missing pod; it needs no step.
        seen |= {
            name: missing_node(name, rejections.get(name, ""), is_lasting=_set_of(name) in lasting) for name in missing
        }
        seen |= await find_warnings(self._api, pods, seen, now)
        for name, (reason, message) in objects.racks.missing.items():
            seen[name] = replace(seen[name], state=NodeState.FAILED, reason=reason, message=message)
        for name, message in objects.claims.lost.items():
            if name in seen and seen[name].state is not NodeState.READY:
                seen[name] = replace(seen[name], state=NodeState.FAILED, reason="VolumeLost", message=message)
        defer_restarts(desired, pods, seen)
        shown = await with_certificates(seen, desired, self._secret_store)
        held, allowed = kubernetes_objects.deferred_objects(desired), disruptions_allowed(desired, objects.found)
        if allowed is not None:
            # Its value depends on the brokers' view: `limit_disruptions` writes it.
            held.add(f"{UNWANTED}PodDisruptionBudget/{desired.cluster.name}")
        differing = [it for it in differences(objects.wanted, objects.found) if it not in held]
        lacking = {_set_of(name) for name in missing if name in rejections}
        # A StatefulSet that is written is noticed by its controller anyway.
        marked = [it for it in marks(objects.found, lacking) if it.partition(" ")[2] not in differing]
        return ObservedCluster(
            outdated=(*differing, *objects.claims.patches, *objects.racks.annotations, *marked),
            nodes=shown,
            claims=objects.claims.observed,
            storage=objects.claims.trouble,
            disruptions_allowed=allowed,
        )

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        objects = await self._observe_objects(desired)
        await self._claims.patch(objects.claims, outdated)
        fixed = [
            it for it in objects.wanted if key_of(it) in outdated and _is_fixed(it, objects.found, desired.cluster)
        ]
        replaced = {key_of(it): objects.found[key_of(it)] for it in fixed}
        await self._children.publish(desired.cluster, objects.wanted, [it for it in outdated if it not in replaced])
        for found in replaced.values():
            # Pods and claims stay, and the next StatefulSet adopts them; the next reconciliation creates it.
            if not found["metadata"].get("deletionTimestamp"):
                await self._api.delete_only(found)
        await write_marks(self._api, objects.found, outdated, self._now())
        for name, annotation in objects.racks.annotations.items():
            if name in outdated:
                await self._api.apply(annotation)

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        for claim in claims:
            metadata = {"name": claim.name, "namespace": self._namespace, "uid": claim.uid}
            await self._api.delete_only({"kind": CLAIM, "metadata": metadata})

    async def start_node(self, node: DesiredNode) -> None:
        raise HostError("Unsupported", f"pod {node.name} is started by its StatefulSet, not by the operator")

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        # A call that is late, or whose response was lost, must not delete the pod's successor.
        await self._api.delete("Pod", self._namespace, node.name, uid=uid)

    async def remove_node(self, name: str, uid: str) -> None:
        await self._api.delete("Pod", self._namespace, name, uid=uid)

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        await self._children.write(desired.cluster, disruption_budget(desired.cluster, allowed))

    async def _observe_objects(self, desired: DesiredCluster) -> "_ClusterObjects":
        cluster = desired.cluster
        policies = self._policies(cluster)
        found = await self._children.find(cluster, [*policies, *kubernetes_objects.objects(desired)])
        names = [node.name for node in desired.nodes]
        for pool in cluster.pools:
            # Nodes that are to leave exist until the replica count is lowered, and so do missing pods.
            names += _nodes_of(f"{cluster.name}-{pool.name}", found)
        pods = await self._api.objects("Pod", self._namespace, f"{CLUSTER_LABEL}={cluster.name}")
        without = {pool.name: deferred_volumes(cluster, pool, names, pods) for pool in cluster.pools}
        return _ClusterObjects(
            pods=pods,
            names=names,
            claims=await self._claims.observe(cluster),
            racks=await find_racks(self._api, cluster, pods),
            # Network policies first, so that no port is open that is to be closed.
            wanted=[*policies, *kubernetes_objects.objects(desired, without)],
            found=found,
        )

    async def _rejections(self, objects: "_ClusterObjects") -> Mapping[str, str]:
        """Return, by node, why the API server rejects a pod that is missing, or that is to replace another one."""
        there = {pod["metadata"]["name"]: pod for pod in objects.pods}
        rejections: dict[str, str] = {}
        for document in objects.wanted:
            account = document.get("spec", {}).get("template", {}).get("spec", {}).get("serviceAccountName")
            # Without its account, which is written first, every pod is rejected.
            if document["kind"] != "StatefulSet" or f"ServiceAccount/{account}" not in objects.found:
                continue
            published = objects.found.get(key_of(document), {"metadata": {}})
            metadata = {**document["metadata"], "uid": published["metadata"].get("uid", "")}
            nodes = [it for it in objects.names if it.rpartition("-")[0] == metadata["name"]]
            rejections |= await find_rejections(
                self._api,
                {**document, "metadata": metadata},
                [it for it in nodes if it not in there and "kind" in published],
                [pod for it in nodes if (pod := there.get(it)) and is_outdated(pod, document)],
                objects.claims.names,
            )
        return rejections

    def _policies(self, cluster: Cluster) -> list[Document]:
        if cluster.network_policy is None:
            return []
        if self._operator is None:
            raise HostError(
                "OperatorUnknown",
                "spec.networkPolicy would block this operator, which does not know its own pods; set "
                "OTTLA_OPERATOR_OWN_NAMESPACE and OTTLA_OPERATOR_OWN_LABELS, or remove networkPolicy",
            )
        return [network_policy(cluster, self._operator)]

    async def _cluster_id_on_volumes(self, cluster: Cluster) -> str | None:
        claims = await self._api.objects(CLAIM, self._namespace, f"{CLUSTER_LABEL}={cluster.name}")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterObjects:
    """The observed and the wanted objects of one cluster."""

    pods: list[Document]
    names: list[str]
    """Nodes with a pod, existing or to be created."""
    claims: ObservedClaims
    racks: PodRacks
    wanted: list[Document]
    found: Mapping[str, Document]
    """By `children.key_of`."""


def _set_of(node: str) -> str:
    """Return the StatefulSet of a node, by `key_of`."""
    return f"StatefulSet/{node.rpartition('-')[0]}"


def _is_fixed(wanted: Document, found: Mapping[str, Document], cluster: Cluster) -> bool:
    """Tell whether ``wanted`` cannot be applied to the object: some fields of a StatefulSet are immutable."""
    there = found.get(key_of(wanted))
    if there is None or there["kind"] != "StatefulSet" or not may_adopt(there, cluster):
        return False
    fixed = {name: wanted["spec"][name] for name in _IMMUTABLE}
    return bool(there["metadata"].get("deletionTimestamp")) or not covers(there["spec"], fixed)


def _nodes_of(name: str, found: Mapping[str, Document]) -> list[str]:
    """Return the nodes of a pool as last published; while its StatefulSet is replaced, from its ConfigMap."""
    stateful_set, config_map = found.get(f"StatefulSet/{name}"), found.get(f"ConfigMap/{name}")
    if stateful_set is not None:
        return [f"{name}-{ordinal}" for ordinal in range(stateful_set["spec"]["replicas"])]
    files = {} if config_map is None else config_map.get("data") or {}
    return [file.removesuffix(FILE_END) for file in files if file.endswith(FILE_END)]
