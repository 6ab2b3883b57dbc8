"""``kubectl ottla rebalance``."""

from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.kubernetes import rebalance
from ottla.cli.kubernetes.target import Target

CLUSTERS = "clusters.ottla.dev"


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "_PLAN_TIMEOUT_S", 0.0)
    monkeypatch.setattr(rebalance, "_POLL_INTERVAL_S", 0.01)


def stored(server: Any, **record: str) -> None:
    document = server.object(CLUSTERS, "demo")
    document["status"]["rebalance"] = record
    server.put(CLUSTERS, document)


def annotation(server: Any) -> Any:
    return server.object(CLUSTERS, "demo")["metadata"].get("annotations", {}).get("ottla.dev/rebalance")


def test_plan_is_requested_and_shown(kubectl_ottla: Any, server: Any) -> None:
    (server.root / "PLANS").touch()
    server.put(
        "configmap",
        {"metadata": {"name": "demo-rebalance"}, "data": {"summary.txt": "r1: 2 moves\n", "brokers.txt": "0 has 4\n"}},
    )
    code, shown, said = kubectl_ottla("rebalance")
    assert (code, shown) == (0, "r1: 2 moves\n0 has 4\n")
    assert "--execute r1" in said
    assert annotation(server).startswith("plan ")


def test_missing_plan_is_an_error_after_the_timeout(kubectl_ottla: Any) -> None:
    code, _, said = kubectl_ottla("rebalance")
    assert (code, "there is no plan" in said) == (ExitCode.UNHEALTHY, True)


def test_plan_is_carried_out_by_its_id(kubectl_ottla: Any, server: Any) -> None:
    stored(server, id="r1", phase="Done")
    code, _, said = kubectl_ottla("rebalance", "--execute", "r1")
    assert (code, annotation(server)) == (0, "r1")
    assert "plan r1 is carried out" in said


def test_plan_without_wait_returns_at_once(kubectl_ottla: Any, server: Any) -> None:
    stored(server, id="r1", phase="Proposed")
    assert kubectl_ottla("rebalance", "--execute", "r1", "--no-wait")[0] == 0
    assert annotation(server) == "r1"


def test_stale_plan_is_unhealthy(kubectl_ottla: Any, server: Any) -> None:
    stored(server, id="r1", phase="Stale", message="topic orders is gone")
    code, _, said = kubectl_ottla("rebalance", "--execute", "r1")
    assert (code, "topic orders is gone" in said) == (ExitCode.UNHEALTHY, True)


@pytest.mark.parametrize("now", [None, "plan later"], ids=["stopped", "another-plan"])
def test_replaced_request_ends_the_wait(
    kubectl_ottla: Any, server: Any, monkeypatch: pytest.MonkeyPatch, now: str | None
) -> None:
    stored(server, id="r1", phase="Running")
    looked = Target.refreshed

    def meanwhile(target: Target) -> Any:
        target.kubectl.merge(CLUSTERS, target.name, {"metadata": {"annotations": {"ottla.dev/rebalance": now}}})
        return looked(target)

    monkeypatch.setattr(Target, "refreshed", meanwhile)
    code, _, said = kubectl_ottla("rebalance", "--execute", "r1")
    assert (code, "the request was replaced" in said) == (ExitCode.UNHEALTHY, True)


def test_unknown_plan_is_not_found(kubectl_ottla: Any, server: Any) -> None:
    assert kubectl_ottla("rebalance", "--execute", "r2")[0] == ExitCode.NOT_FOUND
    assert annotation(server) is None


def test_moves_are_stopped(kubectl_ottla: Any, server: Any) -> None:
    stored(server, id="r1", phase="Running")
    kubectl_ottla("rebalance", "--execute", "r1", "--no-wait")
    assert kubectl_ottla("rebalance", "--stop")[0] == 0
    assert annotation(server) is None


def test_stop_is_no_plan(kubectl_ottla: Any) -> None:
    assert kubectl_ottla("rebalance", "--stop", "--execute", "r1")[0] == ExitCode.USAGE
