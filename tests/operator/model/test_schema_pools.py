"""Admission of pools and their volumes, without an API server."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.manifest import Cluster

Document = dict[str, Any]
Builder = Callable[..., Document]


def test_pool_keeps_its_name(cluster_manifest: Builder) -> None:
    renamed = cluster_manifest()
    renamed["spec"]["pools"][0]["name"] = "other"

    with pytest.raises(ManifestError, match="cannot be renamed"):
        schema.admit(renamed, schema.admit(cluster_manifest()))


def pools(*described: Document) -> Document:
    return {
        "apiVersion": "ottla.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {"pools": [{"storage": {"size": "1Gi"}, **pool} for pool in described]},
    }


@pytest.mark.parametrize(
    "described",
    [
        pytest.param([{"name": "main", "nodes": 3}], id="three-that-are-both"),
        pytest.param(
            [{"name": "main", "nodes": 3}, {"name": "brokers", "nodes": 2, "roles": ["broker"], "firstNodeId": 3}],
            id="three-that-are-both-and-two-brokers",
        ),
        pytest.param(
            [
                {"name": "quorum", "nodes": 3, "roles": ["controller"], "firstNodeId": 10},
                {"name": "brokers", "nodes": 10, "roles": ["broker"]},
            ],
            id="apart",
        ),
        pytest.param(
            [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 1, "firstNodeId": 2}], id="odd-over-several-pools"
        ),
        pytest.param([{"name": "a", "nodes": 1}, {"name": "b", "nodes": 0, "firstNodeId": 1}], id="an-empty-pool"),
    ],
)
def test_pools_with_roles_are_admitted(described: list[Document]) -> None:
    admitted = schema.admit(pools(*described))
    roles = [list(pool.roles) for pool in Cluster.parse(admitted).pools]

    assert roles == [it.get("roles", ["broker", "controller"]) for it in described]
    assert schema.admit(pools(*described), admitted) == admitted


@pytest.mark.parametrize(
    ("described", "said"),
    [
        pytest.param([{"name": "a", "nodes": 1}, {"name": "b", "nodes": 2}], "ids in common", id="same-first-id"),
        pytest.param(
            [{"name": "a", "nodes": 1, "firstNodeId": 0}, {"name": "b", "nodes": 2}], "ids in common", id="written-zero"
        ),
        pytest.param(
            [{"name": "a", "nodes": 3}, {"name": "b", "nodes": 2, "firstNodeId": 2}], "ids in common", id="overlap"
        ),
        pytest.param(
            [{"name": "a", "nodes": 3}, {"name": "b", "nodes": 1, "firstNodeId": 3}], "odd number", id="even-in-all"
        ),
        pytest.param([{"name": "rebalance", "nodes": 1}], "has the cluster's rebalance plans", id="the-name-of-plans"),
    ],
)
def test_pools_that_do_not_fit_together_are_rejected(described: list[Document], said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        schema.admit(pools(*described))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"roles": ["broker"]}, "roles cannot be changed", id="roles"),
        pytest.param({"firstNodeId": 5}, "node ids cannot be changed", id="node-ids"),
    ],
)
def test_pool_keeps_what_its_nodes_are(change: Document, said: str) -> None:
    quorum = {"name": "quorum", "nodes": 1, "roles": ["controller"], "firstNodeId": 9}
    workers = {"name": "main", "nodes": 3}
    stored = schema.admit(pools({**quorum, "nodes": 0}, workers))

    with pytest.raises(ManifestError, match=said):
        schema.admit(pools({**quorum, "nodes": int("roles" in change)}, {**workers, **change}), stored)


BOTH = ["controller", "broker"]


@pytest.mark.parametrize(
    ("before", "after", "rejection"),
    [
        pytest.param({}, {"roles": BOTH}, None, id="both-roles-written-down"),
        pytest.param({"roles": BOTH}, {}, None, id="both-roles-left-out"),
        pytest.param({"roles": BOTH}, {"roles": BOTH[::-1]}, None, id="in-another-order"),
        pytest.param({}, {"roles": ["controller"]}, "roles cannot be changed", id="a-role-less"),
        pytest.param({"roles": ["controller"]}, {}, "roles cannot be changed", id="a-role-more-by-leaving-out"),
        pytest.param({"roles": ["controller"]}, {"roles": BOTH}, "roles cannot be changed", id="a-role-more"),
        pytest.param({}, {"firstNodeId": 0}, None, id="zero-written-down"),
        pytest.param({"firstNodeId": 0}, {}, None, id="zero-left-out"),
        pytest.param({}, {"firstNodeId": 9}, "node ids cannot be changed", id="other-ids"),
        pytest.param({"firstNodeId": 9}, {}, "node ids cannot be changed", id="other-ids-by-leaving-out"),
        pytest.param({"firstNodeId": 9}, {"firstNodeId": 0}, "node ids cannot be changed", id="other-ids-by-zero"),
    ],
)
def test_what_a_pool_leaves_out_counts_as_written(before: Document, after: Document, rejection: str | None) -> None:
    others = {"name": "others", "nodes": 1, "roles": ["broker"], "firstNodeId": 100}
    stored = schema.admit(pools({"name": "main", "nodes": 1, **before}, others))
    manifest = pools({"name": "main", "nodes": 1, **after}, others)

    if rejection is None:
        assert schema.admit(manifest, stored)["spec"] == manifest["spec"]
    else:
        with pytest.raises(ManifestError, match=rejection):
            schema.admit(manifest, stored)


def test_pool_cannot_be_removed_while_others_stay() -> None:
    more = {"name": "more", "nodes": 1, "roles": ["broker"], "firstNodeId": 1}
    stored = schema.admit(pools({"name": "main", "nodes": 1}, more))

    with pytest.raises(ManifestError, match="set its nodes to 0"):
        schema.admit(pools({"name": "main", "nodes": 1}), stored)


def disks(*names: str, **volume: str) -> Document:
    return {"size": "1Gi", "volumes": [{"name": it, "size": "1Gi", "storageClassName": "x", **volume} for it in names]}


LARGER: Document = {"size": "2Gi"}
TWO_DISKS = disks("d1")


@pytest.mark.parametrize(
    ("before", "after", "rejection"),
    [
        pytest.param(LARGER, {"size": "3Gi"}, None, id="larger"),
        pytest.param(LARGER, {"size": "2048Mi"}, None, id="as-large-in-other-words"),
        pytest.param(LARGER, {"size": "2047Mi"}, "may only grow", id="smaller"),
        pytest.param(LARGER, {"size": "2G"}, "may only grow", id="smaller-by-its-unit"),
        pytest.param({"size": "9Pi"}, {"size": "10Pi"}, None, id="very-large"),
        pytest.param(LARGER, {"size": "2Gi", "storageClassName": "x"}, "in its class", id="class-given"),
        pytest.param(LARGER, {"size": "2Gi", "onScaleDown": "Delete"}, None, id="policy"),
        pytest.param({"size": "1Gi"}, TWO_DISKS, None, id="first-disk-more"),
        pytest.param(TWO_DISKS, disks("d0", "d1"), None, id="disk-more"),
        pytest.param(TWO_DISKS, disks("d0"), "cannot be removed", id="other-disk"),
        pytest.param(TWO_DISKS, {"size": "1Gi"}, "cannot be removed", id="no-disk-left"),
        pytest.param(TWO_DISKS, disks("d1", size="2Gi"), None, id="disk-larger"),
        pytest.param(TWO_DISKS, disks("d1", size="1023Mi"), "may only grow", id="disk-smaller"),
        pytest.param(TWO_DISKS, disks("d1", storageClassName="y"), "in its class", id="disk-of-another-class"),
    ],
)
def test_volumes_grow_and_are_added(
    cluster_manifest: Builder, before: Document, after: Document, rejection: str | None
) -> None:
    stored = schema.admit(cluster_manifest(storage=before))

    if rejection is None:
        assert schema.admit(cluster_manifest(storage=after), stored)
    else:
        with pytest.raises(ManifestError, match=rejection):
            schema.admit(cluster_manifest(storage=after), stored)


@pytest.mark.parametrize("name", ["data", "tls", "D1", "d-1", "d" * 13])
def test_disk_has_a_name_of_its_own(cluster_manifest: Builder, name: str) -> None:
    with pytest.raises(ManifestError, match=r"must match|that every node has|too long"):
        schema.admit(cluster_manifest(storage=disks(name)))
