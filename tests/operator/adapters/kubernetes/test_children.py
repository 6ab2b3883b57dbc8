"""Objects that a Cluster owns: what is repaired, what is removed, and what is nobody's business."""

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
    """Look once and do what is to be done; return what that was."""

    async def both() -> list[str]:
        outdated = list(differences(wanted, await children.find(cluster, wanted)))
        await children.publish(cluster, wanted, outdated)
        return outdated

    return asyncio.run(both())


def test_what_was_wanted_before_is_removed(api: Any, children: Children, cluster: Cluster) -> None:
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
def test_what_is_not_surely_ours_is_never_removed(
    api: Any, children: Children, cluster: Cluster, stranger: Document
) -> None:
    api.put({"kind": "Service", "metadata": {"name": "demo-x", **stranger}, "spec": {}})

    assert round_of(children, cluster) == []
    asyncio.run(children.publish(cluster, [], ["no Service/demo-x"]))

    assert len(api.stored) == 1


def test_removal_that_comes_late_finds_nothing(api: Any, children: Children, cluster: Cluster) -> None:
    asyncio.run(children.publish(cluster, [], ["no Service/demo-x"]))

    assert api.writes == []


@pytest.mark.parametrize("damage", ["labels", "ownerReferences"])
def test_child_that_somebody_disowned_is_repaired(api: Any, children: Children, cluster: Cluster, damage: str) -> None:
    round_of(children, cluster, service(cluster, "demo-a"))
    del api.stored[ObjectKey("Service", "kafka", "demo-a")]["metadata"][damage]

    assert round_of(children, cluster, service(cluster, "demo-a")) == ["Service/demo-a"]
    assert round_of(children, cluster, service(cluster, "demo-a")) == []


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param({"labels": {}}, id="nobodys"),
        pytest.param({"labels": OURS, "ownerReferences": owner(name="demo-a")}, id="of-another-cluster"),
        pytest.param({"ownerReferences": owner("Deployment")}, id="of-a-deployment"),
    ],
)
def test_object_of_somebody_else_is_not_taken_over(
    api: Any, children: Children, cluster: Cluster, stranger: Document
) -> None:
    api.put({"kind": "Service", "metadata": {"name": "demo-x", **stranger}, "spec": {}})

    with pytest.raises(HostError, match="Service demo-x is somebody else's"):
        round_of(children, cluster, service(cluster, "demo-x"))


def test_objects_of_the_former_cluster_of_this_name_are_taken_over(
    api: Any, children: Children, cluster: Cluster
) -> None:
    """It was deleted a moment ago, and what it owned has not been collected yet."""
    api.put({"kind": "Service", "metadata": {"name": "demo-x", "labels": OURS, "ownerReferences": owner(uid="u-0")}})

    assert round_of(children, cluster, service(cluster, "demo-x")) == ["Service/demo-x"]
    assert api.stored[ObjectKey("Service", "kafka", "demo-x")]["metadata"]["ownerReferences"][0]["uid"] == "u-1"


def test_labels_of_those_who_apply_clusters_are_not_those_of_children(cluster: Cluster) -> None:
    """A GitOps tool that finds its label on an object that it does not know removes the object."""
    assert not [key for key in metadata(cluster, "demo-x")["labels"] if "argo" in key]
