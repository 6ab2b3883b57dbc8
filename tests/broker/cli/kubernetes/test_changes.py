"""The changes of ``kubectl ottla`` to a Cluster."""

from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode

CLUSTERS = "clusters.ottla.dev"


def test_roll_ends_when_every_pod_has_been_replaced(kubectl_ottla: Any, server: Any) -> None:
    (server.root / "ACTIVE").touch()
    code, _, said = kubectl_ottla("roll")
    assert code == 0, said
    assert "all 2 nodes of Cluster demo were restarted" in said
    wanted = server.object(CLUSTERS, "demo")["metadata"]["annotations"]["ottla.dev/restart"]
    assert {server.object("pods", f"demo-main-{number}")["metadata"]["uid"] for number in range(2)} == {wanted}


def test_halted_roll_is_reported_with_its_reason(kubectl_ottla: Any, server: Any) -> None:
    (server.root / "HALTED").touch()
    code, _, said = kubectl_ottla("roll")
    assert code == ExitCode.UNHEALTHY
    assert "node demo-main-0 fails" in said


def test_roll_that_times_out_continues(kubectl_ottla: Any, server: Any) -> None:
    code, _, said = kubectl_ottla("roll", "--timeout", "0.01")
    assert code == ExitCode.UNHEALTHY
    assert "2 nodes are left" in said
    assert "ottla.dev/restart" in server.object(CLUSTERS, "demo")["metadata"]["annotations"]


def test_roll_without_wait_returns_at_once(kubectl_ottla: Any, server: Any) -> None:
    assert kubectl_ottla("roll", "--no-wait")[0] == 0
    assert "ottla.dev/restart" in server.object(CLUSTERS, "demo")["metadata"]["annotations"]


def test_paused_cluster_is_not_rolled(kubectl_ottla: Any, server: Any) -> None:
    assert kubectl_ottla("pause")[0] == 0
    assert server.object(CLUSTERS, "demo")["spec"]["paused"] is True
    code, _, said = kubectl_ottla("roll")
    assert code == ExitCode.ERROR
    assert "kubectl ottla resume" in said
    assert "annotations" not in server.object(CLUSTERS, "demo")["metadata"]


def test_resumed_cluster_has_no_trace_of_the_pause(kubectl_ottla: Any, server: Any) -> None:
    kubectl_ottla("pause")
    assert kubectl_ottla("resume")[0] == 0
    assert "paused" not in server.object(CLUSTERS, "demo")["spec"]


def test_undo_writes_the_image_that_all_nodes_ran_last(kubectl_ottla: Any, server: Any) -> None:
    document = server.object(CLUSTERS, "demo")
    document["spec"]["image"] = "ottla/broker:bad"
    server.put(CLUSTERS, document)
    assert kubectl_ottla("undo", "--yes")[0] == 0
    assert server.object(CLUSTERS, "demo")["spec"]["image"] == "ottla/broker:1"


@pytest.mark.parametrize(
    ("spec", "known_version", "written"),
    [
        pytest.param({"version": "0.3.0"}, "0.2.0", {"version": "0.2.0"}, id="version"),
        pytest.param({"version": "0.2.0", "image": "bad:1"}, "0.2.0", {"version": "0.2.0"}, id="image-over-it"),
        pytest.param({}, "0.2.0", {"version": "0.2.0"}, id="the-operators-own"),
        pytest.param({"image": "bad:1"}, "0.2.0", {"image": "ottla/broker:1"}, id="image"),
    ],
)
def test_undo_sets_the_version_that_takes_effect(
    kubectl_ottla: Any, server: Any, spec: dict[str, str], known_version: str, written: dict[str, str]
) -> None:
    document = server.object(CLUSTERS, "demo")
    del document["spec"]["image"]
    document["spec"] |= spec
    document["status"]["version"] = known_version
    server.put(CLUSTERS, document)

    code, _, said = kubectl_ottla("undo", "--yes")

    assert (code, "wins over" in said) == (0, False), said
    assert {key: it for key, it in server.object(CLUSTERS, "demo")["spec"].items() if key != "pools"} == written


def test_undo_to_an_image_warns_about_the_version(kubectl_ottla: Any, server: Any) -> None:
    document = server.object(CLUSTERS, "demo")
    del document["spec"]["image"]
    document["spec"]["version"] = "0.3.0"
    server.put(CLUSTERS, document)

    code, _, said = kubectl_ottla("undo", "--yes")

    assert code == 0, said
    assert server.object(CLUSTERS, "demo")["spec"]["image"] == "ottla/broker:1"
    assert "it overrides spec.version until you remove it" in said
    command = """kubectl patch clusters.ottla.dev demo --type=merge -p '{"spec": {"image": null}}'"""
    assert command in said


def test_undo_of_nothing_changes_nothing(kubectl_ottla: Any, server: Any) -> None:
    code, _, said = kubectl_ottla("undo", "--yes")
    assert (code, "already" in said) == (0, True)
    assert not any("patch" in words for words in server.said)


def test_undo_before_any_release_ran_is_rejected(kubectl_ottla: Any, server: Any) -> None:
    document = server.object(CLUSTERS, "demo")
    del document["status"]["image"]
    server.put(CLUSTERS, document)
    assert kubectl_ottla("undo", "--yes")[0] == ExitCode.NOT_FOUND


def test_pool_grows_without_a_prompt(kubectl_ottla: Any, server: Any) -> None:
    assert kubectl_ottla("scale", "main=5")[0] == 0
    assert server.object(CLUSTERS, "demo")["spec"]["pools"] == [{"name": "main", "nodes": 5}]


def test_pool_shrinks_only_with_confirmation(kubectl_ottla: Any, server: Any) -> None:
    code, _, said = kubectl_ottla("scale", "main=1")
    assert (code, "--yes" in said) == (ExitCode.USAGE, True)
    assert server.object(CLUSTERS, "demo")["spec"]["pools"][0]["nodes"] == 2
    assert kubectl_ottla("scale", "main=1", "--yes")[0] == 0
    assert server.object(CLUSTERS, "demo")["spec"]["pools"][0]["nodes"] == 1


@pytest.mark.parametrize(
    ("pool", "code"),
    [
        ("others=3", ExitCode.NOT_FOUND),
        ("main", ExitCode.USAGE),
        ("main=-1", ExitCode.USAGE),
        ("main=x", ExitCode.USAGE),
    ],
)
def test_pool_that_cannot_be_scaled(kubectl_ottla: Any, server: Any, pool: str, code: ExitCode) -> None:
    assert kubectl_ottla("scale", pool)[0] == code
    assert not any("patch" in words for words in server.said)
