"""Every field of every object that the operator writes for a Cluster, changed by another client, is repaired.

The API server in memory merges by Kubernetes' OpenAPI schemas, which also name the fields that can be added.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import host_observations
import pytest
from document_copies import copy_document
from managed_api import ManagedApi
from object_edits import Edit, edits_of

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.adapters.kubernetes.managed_fields import FIELDS_OF_OTHERS
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.objects.network_policy import OperatorPods

Document = dict[str, Any]
Builder = Callable[..., Document]

OBJECTS = [
    "ConfigMap/demo-main",
    "NetworkPolicy/demo",
    "PodDisruptionBudget/demo",
    "Service/demo-bootstrap",
    "Service/demo-balanced-bootstrap",
    "Service/demo-main-0-balanced",
    "Service/demo-main-0-ports",
    "Service/demo-nodes",
    "Service/demo-ports-bootstrap",
    "ServiceAccount/demo-nodes",
    "StatefulSet/demo-main",
]
OF_THE_NEXT_BROKER = ["Service/demo-main-1-balanced", "Service/demo-main-1-ports"]
NAMES_ANOTHER_OWNER = ["metadata.ownerReferences[].kind", "metadata.ownerReferences[].name"]
"""An object that another object controls is rejected, as one of another Cluster is."""


def key_of(name: str) -> ObjectKey:
    kind, _, its = name.partition("/")
    return ObjectKey(kind, "kafka", its)


@pytest.fixture
def managed() -> ManagedApi:
    return ManagedApi()


@pytest.fixture
def cluster(cluster_manifest: Builder) -> Cluster:
    spec = {
        "tls": {},
        "rack": {"topologyKey": "zone"},
        "networkPolicy": {"httpFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "listeners": [
            {"name": "inside", "port": 9094, "tls": True},
            {"name": "ports", "port": 9095, "tls": True, "type": "nodeport"},
            {"name": "balanced", "port": 9096, "tls": True, "type": "loadbalancer"},
        ],
    }
    template = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "kafka", "operator": "Exists"}]}
    manifest = cluster_manifest(
        nodes=2, spec=spec, template=template, resources={"limits": {"cpu": "1", "memory": "1Gi"}}
    )
    manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1"}
    manifest["status"] = {"clusterId": "AAAAAAAAAAAAAAAAAAAAAA", "initialControllers": []}
    return Cluster.parse(manifest)


@pytest.fixture
def reconcile(managed: ManagedApi, cluster: Cluster) -> Callable[[], list[str]]:
    """Return a function that does what a reconciliation does with the objects, and returns its writes."""
    host = KubernetesHost(managed, "kafka", "ottla/broker:1", OperatorPods(namespace="ottla", labels={"a": "b"}))

    def once() -> list[str]:
        written = len(managed.writes)
        desired, observed = host_observations.observe(host, cluster)
        if observed.outdated:
            asyncio.run(host.publish(desired, observed.outdated))
        if observed.disruptions_allowed == -1:
            asyncio.run(host.limit_disruptions(desired, 1))
        return managed.writes[written:]

    while once():
        pass
    return once


def comparable(document: Document) -> Document:
    """Return an object without node ports: the API server allocates others when a Service changes its type."""
    if document["kind"] != "Service":
        return document
    ports = [{name: it for name, it in port.items() if name != "nodePort"} for port in document["spec"]["ports"]]
    return {**document, "spec": {**document["spec"], "ports": ports}}


def belongs_to_others(kind: str, edit: Edit) -> bool:
    """Tell whether an edit is of a field that other clients may set."""
    return edit.field in FIELDS_OF_OTHERS.get(kind, ()) or (
        edit.field in ("metadata.annotations", "metadata.annotations.*", "metadata.finalizers", "metadata.labels.*")
        and edit.how == "add"
    )


def test_objects_are_all_that_a_cluster_has(reconcile: Callable[[], list[str]], managed: ManagedApi) -> None:
    names = sorted(f"{key.kind}/{key.name}" for key in managed.stored)

    assert names == sorted([*OBJECTS, *OF_THE_NEXT_BROKER])
    assert reconcile() == []


@pytest.mark.parametrize("name", OBJECTS)
def test_every_field_is_repaired_by_one_reconciliation(
    reconcile: Callable[[], list[str]], managed: ManagedApi, name: str
) -> None:
    key = key_of(name)
    before, written = copy_document(managed.stored[key]), managed.content(key)
    wrong: list[str] = []
    edits = [it for it in edits_of(written) if it.field not in NAMES_ANOTHER_OWNER]
    for edit in edits:
        managed.stored[key] = copy_document(before)
        try:
            managed.edit(key, edit.change)
        except ApiError:
            continue
        wanted = managed.content(key) if belongs_to_others(key.kind, edit) else written
        reconcile()
        if comparable(managed.content(key)) != comparable(wanted):
            wrong.append(str(edit))
        elif again := reconcile():
            wrong.append(f"{edit}: written again: {again}")

    assert edits
    assert wrong == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("podManagementPolicy", "OrderedReady", id="policy"),
        pytest.param("selector", {"matchLabels": {"app": "other"}}, id="selector"),
        pytest.param("serviceName", "other", id="service"),
    ],
)
def test_stateful_set_with_another_immutable_field_is_replaced(
    reconcile: Callable[[], list[str]], managed: ManagedApi, field: str, value: Any
) -> None:
    """As one that was created by hand: the API server rejects every apply to it."""
    key = key_of("StatefulSet/demo-main")
    written = managed.content(key)["spec"]
    managed.stored[key]["spec"][field] = value

    assert reconcile() == ["delete StatefulSet/demo-main"]
    assert reconcile() == ["apply StatefulSet/demo-main"]
    assert managed.content(key)["spec"] == written
