"""The PodDisruptionBudget of a Cluster: written if it differs, and none for a single node."""

import asyncio
from collections.abc import Callable
from typing import Any

import host_observations
import pytest

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.observed_cluster import ObservedCluster

Document = dict[str, Any]
BUDGET = ObjectKey("PodDisruptionBudget", "kafka", "demo")
Observe = Callable[[int], tuple[DesiredCluster, ObservedCluster]]


@pytest.fixture
def host(api: Any) -> KubernetesHost:
    return KubernetesHost(api, "kafka", "ottla/broker:1")


@pytest.fixture
def observe(host: KubernetesHost, cluster_manifest: Callable[..., Document]) -> Observe:
    """Return a function that observes a cluster of so many nodes, all of whose other objects exist."""

    def at(nodes: int) -> tuple[DesiredCluster, ObservedCluster]:
        manifest = cluster_manifest(nodes=nodes)
        manifest["metadata"] |= {"namespace": "kafka", "uid": "u-1"}
        manifest["status"] = {"clusterId": "AAAAAAAAAAAAAAAAAAAAAA", "initialControllers": []}
        cluster = Cluster.parse(manifest)
        host_observations.publish(host, cluster)
        return host_observations.observe(host, cluster)

    return at


def test_budget_that_is_missing_is_to_be_written(observe: Observe) -> None:
    assert observe(3)[1].disruptions_allowed == -1


@pytest.mark.parametrize("allowed", [0, 1])
def test_budget_is_read_back_as_it_was_written(host: KubernetesHost, api: Any, observe: Observe, allowed: int) -> None:
    asyncio.run(host.limit_disruptions(observe(3)[0], allowed))

    seen = observe(3)[1]

    assert (seen.disruptions_allowed, seen.outdated) == (allowed, ())
    spec = api.stored[BUDGET]["spec"]
    assert (spec["maxUnavailable"], spec["selector"]) == (allowed, {"matchLabels": {"ottla.dev/cluster": "demo"}})
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "a Kubernetes node with a broken pod can be drained"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"maxUnavailable": 3}, id="more"),
        pytest.param({"maxUnavailable": "50%"}, id="a-share"),
        pytest.param({"maxUnavailable": 1, "selector": {}}, id="other-pods"),
        pytest.param({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, id="other-policy"),
    ],
)
def test_edited_budget_is_outdated(host: KubernetesHost, api: Any, observe: Observe, damage: Document) -> None:
    asyncio.run(host.limit_disruptions(observe(3)[0], 1))
    api.stored[BUDGET]["spec"] |= damage

    assert observe(3)[1].disruptions_allowed not in (0, 1)


def test_one_node_has_no_budget(host: KubernetesHost, api: Any, observe: Observe) -> None:
    asyncio.run(host.limit_disruptions(observe(3)[0], 1))
    asyncio.run(host.remove_node("demo-main-1", ""))

    seen = observe(1)[1]

    assert (seen.disruptions_allowed, seen.outdated) == (None, ())
    assert BUDGET not in api.stored
