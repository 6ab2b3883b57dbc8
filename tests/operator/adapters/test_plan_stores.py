"""Rebalance plans where people read them: written whole, read back, and owned by their Cluster."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client.rebalance_plan import RebalancePlan, moves_json, parse_moves, plan_rebalance
from ottla.types import TopicPartition
from ottla_operator.adapters.kubernetes.plan_store import KubernetesPlans
from ottla_operator.adapters.local.plan_store import LocalPlans
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.errors import HostError
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.ports.plan_store import PlanStore


@pytest.fixture
def plan() -> RebalancePlan:
    return plan_rebalance({TopicPartition("t", number): (0,) for number in range(4)}, {0: "a", 1: "b"})


@pytest.fixture(params=["kubernetes", "local"])
def store(request: pytest.FixtureRequest, api: Any, tmp_path: Path) -> PlanStore:
    return KubernetesPlans(api, "team") if request.param == "kubernetes" else LocalPlans(StateDirectory(tmp_path))


@pytest.fixture
def cluster(cluster_manifest: Callable[..., Any]) -> Cluster:
    manifest = cluster_manifest()
    manifest["metadata"]["namespace"] = "team"
    return Cluster.parse(manifest)


def test_moves_are_read_back(store: PlanStore, cluster: Cluster, plan: RebalancePlan) -> None:
    assert asyncio.run(store.read(cluster.name)) is None

    asyncio.run(store.write(cluster, plan))

    text = asyncio.run(store.read(cluster.name))
    assert text is not None
    assert parse_moves(text) == plan.moves


def test_config_map_goes_with_its_cluster_and_is_for_people(api: Any, cluster: Cluster, plan: RebalancePlan) -> None:
    asyncio.run(KubernetesPlans(api, "team").write(cluster, plan))

    written = api.stored[ObjectKey("ConfigMap", "team", "demo-rebalance")]
    (owner,) = written["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Cluster", "demo")
    assert written["data"] == {
        "summary.txt": f"{plan.id}: {plan.summary}\n",
        "brokers.txt": plan.table(),
        "moves.json": moves_json(plan.moves),
    }


def test_foreign_config_map_is_not_overwritten(api: Any, cluster: Cluster, plan: RebalancePlan) -> None:
    theirs = {"kind": "ConfigMap", "metadata": {"name": "demo-rebalance", "namespace": "team"}, "data": {"mine": "1"}}
    theirs = api.put(theirs)

    with pytest.raises(HostError, match="ConfigMap demo-rebalance is not this Cluster's"):
        asyncio.run(KubernetesPlans(api, "team").write(cluster, plan))

    assert api.stored == {ObjectKey("ConfigMap", "team", "demo-rebalance"): theirs}


def test_files_are_for_people(cluster: Cluster, plan: RebalancePlan, tmp_path: Path) -> None:
    asyncio.run(LocalPlans(StateDirectory(tmp_path)).write(cluster, plan))

    assert (tmp_path / "demo-rebalance" / "summary.txt").read_text() == f"{plan.id}: {plan.summary}\n"
