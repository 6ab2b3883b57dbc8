"""``kubectl ottla status``."""

import json
from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.kubernetes.nodes import age

CLUSTERS = "clusters.ottla.dev"


def test_cluster_at_a_glance(kubectl_ottla: Any, server: Any) -> None:
    code, shown, _ = kubectl_ottla("status")
    assert code == 0
    assert shown.splitlines() == [
        "Cluster   default/demo",
        "Ready     True (Ready: 2 of 2 nodes are ready)",
        "Begin at  demo-bootstrap.default.svc:9092",
        "",
        "NODE         STATE  OUTDATED  RESTARTS  AGE  RACK",
        "demo-main-0  ready  no        2         -    zone-1",
        "demo-main-1  ready  no        2         -    zone-1",
    ]


def test_status_shows_the_operation_and_unhealthy_members(kubectl_ottla: Any, server: Any) -> None:
    document = server.object(CLUSTERS, "demo")
    document["status"]["conditions"] = [
        {
            "type": "Ready",
            "status": "False",
            "reason": "RollWaiting",
            "message": "node demo-main-1 has to be restarted",
        },
        {"type": "Degraded", "status": "True", "reason": "RollHalted", "message": "it fails"},
        {"type": "Paused", "status": "False", "reason": "NotPaused", "message": ""},
    ]
    document["status"]["operation"] = {
        "kind": "Roll",
        "node": "demo-main-1",
        "step": "Waiting",
        "done": 1,
        "total": 2,
        "blockedBy": ["partition orders-0"],
        "message": "the image changed",
    }
    server.put(CLUSTERS, document)
    pod = server.object("pods", "demo-main-1")
    pod["metadata"]["annotations"]["ottla.dev/revision"] = "old"
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pod["status"] = {"conditions": [], "containerStatuses": [waiting]}
    server.put("pods", pod)
    rejected = [{"type": "Ready", "status": "False", "reason": "InvalidConfig", "message": "no such key"}]
    far, namesake = {"name": "demo", "namespace": "other"}, {"name": "other"}
    here, named = {"name": "demo"}, {"name": "demo", "namespace": "default"}
    members = (("bad", here, rejected), ("far", far, []), ("new", named, []), ("next-door", namesake, []))
    for name, reference, conditions in members:
        spec = {"clusterRef": reference}
        server.put("topics.ottla.dev", {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}})
    code, shown, _ = kubectl_ottla("status")
    assert code == ExitCode.UNHEALTHY
    assert shown.splitlines() == [
        "Cluster      default/demo",
        "Ready        False (RollWaiting: node demo-main-1 has to be restarted)",
        "Degraded     True (RollHalted: it fails)",
        "At work      Roll: 1 of 2, node demo-main-1, Waiting; the image changed",
        "  waits for  partition orders-0",
        "Begin at     demo-bootstrap.default.svc:9092",
        "Topics       0 of 2 ready",
        "  bad: InvalidConfig: no such key",
        "  new: not reconciled yet",
        "",
        "NODE         STATE             OUTDATED  RESTARTS  AGE  RACK",
        "demo-main-0  ready             no        2         -    zone-1",
        "demo-main-1  ImagePullBackOff  yes       0         -    zone-1",
    ]


def test_cluster_for_scripts(kubectl_ottla: Any) -> None:
    found = json.loads(kubectl_ottla("status", "-o", "json")[1])
    assert (found["name"], [it["state"] for it in found["nodes"]]) == ("demo", ["ready", "ready"])


def test_options_of_kubectl_are_passed_on(kubectl_ottla: Any, server: Any) -> None:
    assert kubectl_ottla("-n", "team-a", "--context", "far", "status")[0] == 0
    assert all(words[:2] == ["--namespace=team-a", "--context=far"] for words in server.said)


def test_several_clusters_need_a_name(kubectl_ottla: Any, server: Any) -> None:
    other = server.object(CLUSTERS, "demo")
    other["metadata"]["name"] = "other"
    server.put(CLUSTERS, other)
    code, _, said = kubectl_ottla("status")
    assert (code, "demo, other" in said) == (ExitCode.ERROR, True)
    assert kubectl_ottla("--cluster", "other", "status")[0] == 0


def test_missing_cluster_is_not_found(kubectl_ottla: Any) -> None:
    code, _, said = kubectl_ottla("--cluster", "nobody", "status")
    assert (code, "nobody" in said) == (ExitCode.NOT_FOUND, True)


def test_namespace_without_clusters(kubectl_ottla: Any, server: Any) -> None:
    (server.root / CLUSTERS / "demo.json").unlink()
    assert kubectl_ottla("status")[0] == ExitCode.NOT_FOUND


def test_missing_kubectl_is_an_error(kubectl_ottla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, said = kubectl_ottla("status")
    assert (code, "install it" in said) == (ExitCode.ERROR, True)


def test_age_without_a_time_is_none() -> None:
    assert age(None) is None


@pytest.mark.parametrize(("since", "form"), [("1970-01-01T00:00:00Z", "d"), ("9999-01-01T00:00:00Z", "0s")])
def test_age_is_short(since: str, form: str) -> None:
    assert (age(since) or "").endswith(form)
