"""The charts, rendered by helm: what is installed, its permissions, and values that are rejected."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model import schema
from ottla_operator.model.document import KINDS

Document = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[Document]]
PRUNED = ("services", "networkpolicies", "poddisruptionbudgets")
"""Kinds of which a Cluster may want fewer than before."""


def kind_of(documents: list[Document], kind: str) -> list[Document]:
    return [document for document in documents if document["kind"] == kind]


@pytest.mark.parametrize("chart", ["ottla-operator", "ottla-cluster"])
def test_chart_passes_helms_linter(helm: Helm, chart: str) -> None:
    done = helm("lint", "--strict", f"charts/{chart}")

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("keep", ["true", "false"])
def test_definitions_are_those_of_the_repository(render: Render, keep: str) -> None:
    rendered = kind_of(render("ottla-operator", f"crds.keep={keep}", crds=True), "CustomResourceDefinition")

    assert {it["metadata"]["name"]: it["spec"] for it in rendered} == {
        schema.definition(kind)["metadata"]["name"]: schema.definition(kind)["spec"] for kind in KINDS
    }
    policies = {it["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for it in rendered}
    assert policies == ({"keep"} if keep == "true" else {None})


def test_definitions_can_be_left_out(render: Render) -> None:
    assert not kind_of(render("ottla-operator", "crds.enabled=false", crds=True), "CustomResourceDefinition")


def test_operator_has_only_the_permissions_that_it_uses(render: Render) -> None:
    (role,) = kind_of(render("ottla-operator", "rbac.aggregate=false"), "ClusterRole")

    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {
        *((kind, verb) for kind in ("clusters", "topics", "users") for verb in ("get", "list", "watch")),
        ("topics", "patch"),
        ("users", "patch"),
        *((f"{kind}/status", "patch") for kind in ("clusters", "topics", "users")),
        *(("secrets", verb) for verb in ("get", "create", "patch", "delete")),
        *(("statefulsets", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
        *(
            (kind, verb)
            for kind in ("configmaps", "serviceaccounts", "certificates")
            for verb in ("get", "create", "patch")
        ),
        # Those of removed listeners.
        ("certificates", "delete"),
        *((kind, verb) for kind in PRUNED for verb in ("get", "list", "create", "patch", "delete")),
        *(
            (kind, verb)
            for kind in ("pods", "persistentvolumeclaims")
            for verb in ("list", "create", "patch", "delete")
        ),
        *(("events", verb) for verb in ("list", "create")),
    }


def test_operator_of_named_namespaces_has_no_right_elsewhere(render: Render) -> None:
    documents = render("ottla-operator", "watchNamespaces={a,b}", "rbac.aggregate=false")

    assert not kind_of(documents, "ClusterRole")
    assert not kind_of(documents, "ClusterRoleBinding")
    roles = [it["metadata"] for it in kind_of(documents, "Role")]
    assert {it["namespace"] for it in roles if it["name"] != "my-lease"} == {"a", "b"}
    assert [it["namespace"] for it in roles if it["name"] == "my-lease"] == ["kafka"]
    (deployment,) = kind_of(documents, "Deployment")
    environment = {it["name"]: it.get("value") for it in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environment["OTTLA_OPERATOR_WATCH_NAMESPACES"] == "a,b"


@pytest.mark.parametrize("namespaces", [(), ("watchNamespaces={a,b}",)], ids=["everywhere", "in-namespaces"])
def test_operator_reads_kubernetes_nodes_by_name_and_only_if_enabled(
    render: Render, namespaces: tuple[str, ...]
) -> None:
    settings = ("rbac.aggregate=false", *namespaces)
    without, asked = render("ottla-operator", *settings), render("ottla-operator", *settings, "rbac.nodes=true")

    assert not [it for it in without if it["metadata"]["name"] == "my-nodes"]
    role, binding = [it for it in asked if it["metadata"]["name"] == "my-nodes"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == "my-nodes"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "my", "namespace": "kafka"}]


def test_lease_is_the_only_one_that_operators_may_write(render: Render) -> None:
    (role,) = kind_of(render("ottla-operator"), "Role")

    rules = [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]]
    # RBAC cannot restrict a creation by name: the object has none yet.
    assert rules == [(["leases"], None, ["create"]), (["leases"], ["my"], ["get", "update"])]
    assert {rule["apiGroups"][0] for rule in role["rules"]} == {"coordination.k8s.io"}


def test_only_the_operator_may_read_secrets(render: Render) -> None:
    """Further roles of the chart are limited to our own kinds."""
    roles = [it for it in kind_of(render("ottla-operator"), "ClusterRole") if it["metadata"]["name"] != "my"]

    assert len(roles) == 2
    assert {kind for role in roles for rule in role["rules"] for kind in rule["resources"]} == {
        "clusters",
        "topics",
        "users",
    }


def test_kubernetes_own_roles_include_ours(render: Render) -> None:
    labels = {
        label.rpartition("-")[2]: role["rules"][0]["verbs"]
        for role in kind_of(render("ottla-operator"), "ClusterRole")
        for label in role["metadata"]["labels"]
        if label.startswith("rbac.authorization.k8s.io/aggregate-to-")
    }

    assert set(labels) == {"admin", "edit", "view"}
    assert labels["view"] == ["get", "list", "watch"]


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        pytest.param((), "ottla/operator:0.1.0", id="default"),
        pytest.param(("image.registry=ghcr.io", "image.tag=2.0.1"), "ghcr.io/ottla/operator:2.0.1", id="tag"),
        pytest.param((f"image.digest=sha256:{'a' * 64}",), f"ottla/operator@sha256:{'a' * 64}", id="digest-wins"),
    ],
)
def test_image_of_the_operator(render: Render, settings: tuple[str, ...], image: str) -> None:
    (deployment,) = kind_of(render("ottla-operator", *settings), "Deployment")

    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]["type"]) == (2, "RollingUpdate")


@pytest.mark.parametrize(
    ("chart", "value"),
    [
        ("ottla-operator", "replicas=0"),
        ("ottla-operator", "image.digest=latest"),
        ("ottla-operator", "logLevel=loud"),
        ("ottla-operator", "workers=0"),
        ("ottla-operator", "crds.upgrade=true"),
        ("ottla-cluster", "cluster.nodes=3"),
        ("ottla-cluster", "cluster.name=Demo"),
        ("ottla-cluster", "cluster.config.num\\.partitions=3"),
        ("ottla-cluster", "topics.a.replicas=3"),
    ],
)
def test_unknown_or_invalid_value_is_rejected(helm: Helm, chart: str, value: str) -> None:
    done = helm("template", "my", f"charts/{chart}", "--set", value)

    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_cluster_chart_makes_manifests_that_are_admitted(render: Render) -> None:
    documents = render(
        "ottla-cluster",
        "cluster.name=demo",
        "topics.flights.partitions=6",
        "topics.other.partitions=1",
        "topics.other.deletionPolicy=Delete",
    )

    assert [schema.admit(document)["metadata"]["name"] for document in documents] == ["demo", "flights", "other"]
    assert {it["spec"]["clusterRef"]["name"] for it in kind_of(documents, "Topic")} == {"demo"}


@pytest.mark.parametrize("keep", ["true", "false"])
def test_cluster_chart_can_leave_its_objects(render: Render, keep: str) -> None:
    documents = render("ottla-cluster", f"keep={keep}", "topics.a.partitions=1")

    kept = [it["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep" for it in documents]
    assert kept == [keep == "true"] * 2
