"""Scheduling and volumes of pods: settings of users, additions of the operator, and limits of both.

After an intended change, rewrite the golden file: OTTLA_REWRITE_GOLDEN=1 pytest tests/operator/model.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster

Document = dict[str, Any]
Builder = Callable[..., Document]
GOLDEN = Path(__file__).parent / "golden" / "placed-pool.yaml"

ZONE = "topology.kubernetes.io/zone"
TEMPLATE: Document = {
    "metadata": {"labels": {"team": "a", "ottla.dev/pool": "other"}, "annotations": {"note": "b"}},
    "nodeSelector": {"disk": "fast"},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
    "terminationGracePeriodSeconds": 300,
}
STORAGE: Document = {"size": "1Gi", "volumes": [{"name": "d2", "size": "1Ti"}, {"name": "d1", "size": "5Gi"}]}


def desired(manifest: Document, image: str = "ottla/broker:1") -> DesiredCluster:
    manifest["metadata"].update({"namespace": "kafka", "uid": "00000000-0000-0000-0000-000000000001"})
    cluster = Cluster.parse(manifest)
    return desired_cluster(cluster, lambda pool, n, _: kubernetes_objects.place(cluster, pool, n), image=image)


def stateful_set(manifest: Document, name: str = "demo-main") -> Document:
    wanted = desired(manifest)
    found = {it["metadata"]["name"]: it for it in kubernetes_objects.objects(wanted)}
    return found[name]


def pod_of(found: Document) -> Document:
    pod: Document = found["spec"]["template"]["spec"]
    return pod


def test_pool_with_everything_is_that_of_the_golden_picture(cluster_manifest: Builder) -> None:
    manifest = cluster_manifest(template=TEMPLATE, storage=STORAGE, spec={"rack": {"topologyKey": ZONE}})
    found = stateful_set(manifest)
    if os.environ.get("OTTLA_REWRITE_GOLDEN"):
        GOLDEN.write_text(yaml.safe_dump(found, sort_keys=False))

    assert found == yaml.safe_load(GOLDEN.read_text())


def test_labels_of_the_operator_win(cluster_manifest: Builder) -> None:
    labels = stateful_set(cluster_manifest(template=TEMPLATE))["spec"]["template"]["metadata"]["labels"]

    assert (labels["team"], labels["ottla.dev/pool"]) == ("a", "main")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"template": {"nodeSelector": {"disk": "slow"}}}, id="template"),
        pytest.param({"template": {"metadata": {"labels": {"team": "b"}}}}, id="label"),
        pytest.param({"storage": STORAGE}, id="disks"),
        pytest.param({"spec": {"rack": {"topologyKey": ZONE}}}, id="rack"),
    ],
)
def test_change_of_a_pod_template_restarts_nodes(cluster_manifest: Builder, change: Document) -> None:
    before, after = desired(cluster_manifest()), desired(cluster_manifest(**change))

    assert before.nodes[0].revision != after.nodes[0].revision
    # The same on a local host, which has no pods.
    assert desired(cluster_manifest(), "").nodes == desired(cluster_manifest(**change), "").nodes


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"template": {"metadata": {"labels": {}}, "tolerations": []}}, id="empty-template"),
        pytest.param({"storage": {"size": "2Gi", "onScaleDown": "Delete"}}, id="size"),
        pytest.param({"spec": {"deletionPolicy": "Delete"}}, id="deletion-policy"),
    ],
)
def test_change_that_needs_no_restart_is_no_new_revision(cluster_manifest: Builder, change: Document) -> None:
    assert desired(cluster_manifest()).nodes == desired(cluster_manifest(**change)).nodes


def test_controllers_of_all_pools_are_spread_together() -> None:
    pools = [
        {"name": "quorum", "nodes": 1, "roles": ["controller"], "firstNodeId": 100, "storage": {"size": "1Gi"}},
        {"name": "main", "nodes": 2, "storage": {"size": "1Gi"}},
        {"name": "more", "nodes": 2, "roles": ["broker"], "firstNodeId": 50, "storage": {"size": "1Gi"}},
    ]
    manifest: Document = {"kind": "Cluster", "metadata": {"name": "demo"}, "spec": {"pools": pools}}
    found = {name: stateful_set(manifest, f"demo-{name}") for name in ("quorum", "main", "more")}

    def spread_with(name: str) -> set[str]:
        (constraint,) = pod_of(found[name])["topologySpreadConstraints"]
        chosen = constraint["labelSelector"]["matchLabels"].items()
        return {other for other in found if chosen <= found[other]["spec"]["template"]["metadata"]["labels"].items()}

    assert [spread_with(name) for name in found] == [{"quorum", "main"}, {"quorum", "main"}, {"more"}]


def test_default_placement_has_no_hard_constraint(cluster_manifest: Builder) -> None:
    pod = pod_of(stateful_set(cluster_manifest()))

    assert [it["whenUnsatisfiable"] for it in pod["topologySpreadConstraints"]] == ["ScheduleAnyway"]
    assert list(pod["affinity"]["podAntiAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]


@pytest.mark.parametrize(("rack", "key"), [(None, ZONE), ("rack", "rack")])
def test_pods_keep_to_different_zones(cluster_manifest: Builder, rack: str | None, key: str) -> None:
    spec = {} if rack is None else {"rack": {"topologyKey": rack}}
    pod = pod_of(stateful_set(cluster_manifest(spec=spec)))

    (wish,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["topologyKey"] == key


def test_users_own_constraints_take_the_place_of_the_operators(cluster_manifest: Builder) -> None:
    mine = [{"maxSkew": 1, "topologyKey": "row", "whenUnsatisfiable": "DoNotSchedule"}]
    pod = pod_of(stateful_set(cluster_manifest(template={"topologySpreadConstraints": mine})))

    assert (pod["topologySpreadConstraints"], "affinity" in pod) == (mine, False)


def test_affinity_of_users_is_beside_the_operators(cluster_manifest: Builder) -> None:
    mine = {"nodeAffinity": {"a": 1}}
    affinity = pod_of(stateful_set(cluster_manifest(template={"affinity": mine})))["affinity"]

    assert set(affinity) == {"nodeAffinity", "podAntiAffinity"}


def test_only_brokers_wait_for_their_rack() -> None:
    pools = [
        {"name": "quorum", "nodes": 1, "roles": ["controller"], "firstNodeId": 100, "storage": {"size": "1Gi"}},
        {"name": "main", "nodes": 1, "roles": ["broker"], "storage": {"size": "1Gi"}},
    ]
    spec = {"pools": pools, "rack": {"topologyKey": ZONE}}
    manifest: Document = {"kind": "Cluster", "metadata": {"name": "demo"}, "spec": spec}
    broker, controller = (pod_of(stateful_set(manifest, f"demo-{name}")) for name in ("main", "quorum"))

    assert [it["name"] for it in broker["initContainers"]] == ["format", "rack"]
    assert [it["name"] for it in controller["initContainers"]] == ["format"]
    assert "broker.rack=$(RACK)" in broker["containers"][0]["args"]
    assert "broker.rack=$(RACK)" not in controller["containers"][0]["args"]


def test_disks_are_log_directories_of_pods_that_have_them_only(cluster_manifest: Builder) -> None:
    wanted = desired(cluster_manifest(storage=STORAGE))
    (node,) = wanted.nodes

    # A pod without the new volumes reads the same file when its container restarts.
    assert "log.dirs=/var/lib/ottla/data\n" in node.properties
    pod = pod_of(stateful_set(cluster_manifest(storage=STORAGE)))
    directories = "log.dirs=/var/lib/ottla/data,/var/lib/ottla-volumes/d1/data,/var/lib/ottla-volumes/d2/data"
    for container in (pod["initContainers"][0], pod["containers"][0]):
        assert directories in container["args"]
        mounted = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        assert (mounted["d1"], mounted["d2"]) == ("/var/lib/ottla-volumes/d1", "/var/lib/ottla-volumes/d2")
