"""Objects that a Cluster owns: which are repaired, which are removed, and which are left alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.children import Children, differences
from ottla_operator.errors import HostError
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.objects.metadata import metadata

Document = dict[str, Any]

OURS = {"app.kubernetes.io/managed-by": "ottla-operator", "ottla.dev/cluster": "demo"}


def owner(kind: str = "Cluster", name: str = "demo", uid: str = "u-1") -> list[Document]:
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}]


@pytest.fixture
def cluster(cluster_manifest: Callable[..., Document]) -> Cluster:
    manifest = cluster_manifest()
    manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1", "labels": {"argocd.argoproj.io/instance": "app"}}
    return Cluster.parse(manifest)


@pytest.fixture
def children(api: Any) -> Children:
    return Children(api, "kafka")


def service(cluster: Cluster, name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, name), "spec": {"type": "ClusterIP"}}


def round_of(children: Children, cluster: Cluster, *wanted: Document) -> list[str]:
    """Observe and publish once; return what was outdated."""

    async def both() -> list[str]:
        outdated = list(differences(wanted, await children.find(cluster, wanted)))
        await children.publish(cluster, wanted, outdated)
        return outdated

    return asyncio.run(both())


def test_object_that_is_not_wanted_any_more_is_removed(api: Any, children: Children, cluster: Cluster) -> None:
    round_of(children, cluster, service(cluster, "demo-a"), service(cluster, "demo-b"))

    assert round_of(children, cluster, service(cluster, "demo-a")) == ["no Service/demo-b"]

    assert {key.name for key in api.stored} == {"demo-a"}
    assert round_of(children, cluster, service(cluster, "demo-a")) == []


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param({"labels": {}, "ownerReferences": owner()}, id="without-labels"),
        pytest.param({"labels": OURS}, id="without-owner"),
        pytest.param({"labels": OURS, "ownerReferences": owner(uid="u-2")}, id="of-another-uid"),
        pytest.param(
            {"labels": OURS | {"ottla.dev/cluster": "other"}, "ownerReferences": owner()}, id="of-another-cluster"
        ),
        pytest.param(
            {"labels": OURS | {"app.kubernetes.io/managed-by": "Helm"}, "ownerReferences": owner()}, id="of-helm"
        ),
    ],
)
def test_object_without_owner_and_labels_is_never_removed(
    api: Any, children: Children, cluster: Cluster, stranger: Document
) -> None:
    api.put({"kind": "Service", "metadata": {"name": "demo-x", **stranger}, "spec": {}})

    assert round_of(children, cluster) == []
    asyncio.run(children.publish(cluster, [], ["no Service/demo-x"]))

    assert len(api.stored) == 1


def test_late_removal_is_no_error(api: Any, children: Children, cluster: Cluster) -> None:
    asyncio.run(children.publish(cluster, [], ["no Service/demo-x"]))

    assert api.writes == []


@pytest.mark.parametrize("damage", ["labels", "ownerReferences"])
def test_child_without_owner_or_labels_is_repaired(api: Any, children: Children, cluster: Cluster, damage: str) -> None:
    round_of(children, cluster, service(cluster, "demo-a"))
    del api.stored[ObjectKey("Service", "kafka", "demo-a")]["metadata"][damage]

    assert round_of(children, cluster, service(cluster, "demo-a")) == ["Service/demo-a"]
    assert round_of(children, cluster, service(cluster, "demo-a")) == []


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param({"labels": {}}, id="without-labels"),
        pytest.param({"labels": OURS, "ownerReferences": owner(name="demo-a")}, id="of-another-cluster"),
        pytest.param({"ownerReferences": owner("Deployment")}, id="of-a-deployment"),
    ],
)
def test_foreign_object_is_not_adopted(api: Any, children: Children, cluster: Cluster, stranger: Document) -> None:
    api.put({"kind": "Service", "metadata": {"name": "demo-x", **stranger}, "spec": {}})

    with pytest.raises(HostError, match="Service demo-x is not this Cluster's"):
        round_of(children, cluster, service(cluster, "demo-x"))


def test_objects_of_a_former_cluster_of_the_same_name_are_adopted(
    api: Any, children: Children, cluster: Cluster
) -> None:
    """It was deleted a moment ago, and its objects have not been garbage-collected yet."""
    api.put({"kind": "Service", "metadata": {"name": "demo-x", "labels": OURS, "ownerReferences": owner(uid="u-0")}})

    assert round_of(children, cluster, service(cluster, "demo-x")) == ["Service/demo-x"]
    assert api.stored[ObjectKey("Service", "kafka", "demo-x")]["metadata"]["ownerReferences"][0]["uid"] == "u-1"


def test_labels_of_the_cluster_are_not_copied_to_children(cluster: Cluster) -> None:
    """A GitOps tool removes unknown objects that carry its label."""
    assert not [key for key in metadata(cluster, "demo-x")["labels"] if "argo" in key]
