"""A real node on this host: the same manifests as on Kubernetes, applied twice, changed, rejected, and deleted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator import local
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.errors import ManifestError
from ottla_operator.local import ExitCode

Document = dict[str, Any]
Builder = Callable[..., Document]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

EXAMPLES = Path(__file__).parents[4] / "examples"
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, free_ports: Callable[..., int]) -> Iterator[Path]:
    """A state directory whose cluster runs."""
    state_dir = tmp_path_factory.mktemp("cluster")
    outcome = local.up(state_dir=state_dir, port=free_ports(), timeout_s=TIMEOUT_S)
    assert outcome.exit_code == ExitCode.OK, outcome.message
    yield state_dir
    local.down(state_dir=state_dir)


def apply(running: Path, *documents: Document) -> list[local.Outcome]:
    return local.apply(documents, state_dir=running, timeout_s=TIMEOUT_S)


def spec_of(running: Path, name: str) -> Document:
    (found,) = local.get("topic", name, state_dir=running)
    status: Document = found["status"]
    return status


def test_cluster_that_is_up_stays_as_it_is(running: Path) -> None:
    before = local.status(state_dir=running)

    outcome = local.up(state_dir=running, timeout_s=TIMEOUT_S)

    assert (outcome.action, outcome.steps) == ("unchanged", ())
    assert local.status(state_dir=running) == before
    assert before is not None
    assert before.exit_code == ExitCode.OK


def test_cluster_is_shown_as_kubernetes_would(running: Path) -> None:
    (cluster,) = local.get("clusters", state_dir=running)

    assert (cluster["kind"], cluster["status"]["readyNodes"]) == ("Cluster", 1)
    assert {it["type"]: it["status"] for it in cluster["status"]["conditions"]} == {
        "Ready": "True",
        "Progressing": "False",
        "Degraded": "False",
        "Paused": "False",
    }


@pytest.mark.parametrize("path", ["topic.yaml", "flights/topic.yaml"])
def test_examples_are_applied_once(running: Path, path: str) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / path).read_text()))

    first, second = apply(running, *documents), apply(running, *documents)

    assert {outcome.action for outcome in first} == {"created"}
    assert {outcome.action for outcome in second} == {"unchanged"}


def test_topic_changes_as_its_manifest_does(running: Path, topic_manifest: Builder) -> None:
    apply(running, topic_manifest("changing", 2, config={"retention.ms": "60000"}))

    (outcome,) = apply(running, topic_manifest("changing", 4, config={"segment.bytes": "1048576"}))

    assert outcome.steps == (
        "set on topic changing: segment.bytes=1048576, retention.ms to its default",
        "grow topic changing to 4 partitions",
    )
    assert spec_of(running, "changing")["partitions"] == 4


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"partitions": 2}, "Invalid", id="fewer-partitions"),
        pytest.param({"partitions": 5, "config": {"retention.msx": "1"}}, "InvalidConfig", id="wrong-config-key"),
        pytest.param({"partitions": 5, "config": {"retention.ms": "x"}}, "InvalidConfig", id="wrong-config-value"),
        pytest.param({"partitions": 5, "replicationFactor": 2}, "ReplicationFactorTooLarge", id="more-than-brokers"),
    ],
)
def test_rejected_change_leaves_the_topic_unchanged(
    running: Path, topic_manifest: Builder, spec: Document, reason: str
) -> None:
    name = f"steady-{reason.lower()}-{len(spec)}"
    apply(running, topic_manifest(name, 3))

    (outcome,) = apply(running, topic_manifest(name, **spec))

    assert (outcome.action, outcome.reason, outcome.exit_code) == ("refused", reason, ExitCode.ERROR)
    assert spec_of(running, name)["partitions"] == 3


def test_impossible_replication_factor_makes_no_topic(running: Path, topic_manifest: Builder) -> None:
    (outcome,) = apply(running, topic_manifest("impossible", 1, replicationFactor=2))

    assert (outcome.reason, outcome.exit_code) == ("ReplicationFactorTooLarge", ExitCode.ERROR)
    assert spec_of(running, "impossible")["partitions"] == 0


@pytest.mark.parametrize(("policy", "action"), [("Delete", "deleted"), ("Retain", "retained")])
def test_deletion_follows_the_policy(running: Path, topic_manifest: Builder, policy: str, action: str) -> None:
    name = f"leaving-{action}"
    apply(running, topic_manifest(name, 2, deletionPolicy=policy))

    assert local.delete("topic", name, state_dir=running, timeout_s=TIMEOUT_S).action == action
    (again,) = apply(running, topic_manifest(name, 3))
    expected = ["create topic"] if policy == "Delete" else ["take over", "grow topic"]
    assert [" ".join(step.split()[:2]) for step in again.steps] == expected


def test_rejected_configuration_is_reported_and_the_node_keeps_running(running: Path) -> None:
    (cluster,) = local.get("cluster", state_dir=running)
    wrong = {**cluster, "spec": {**cluster["spec"], "config": {"num.partitions": "many"}}}

    (outcome,) = apply(running, wrong)
    repaired = apply(running, cluster)[0]

    assert (outcome.reason, outcome.exit_code) == ("FormatFailed", ExitCode.ERROR)
    assert "num.partitions" in outcome.message
    assert repaired.exit_code == ExitCode.OK
    assert "restart" not in " ".join(repaired.steps)


def test_topics_survive_down_and_up(tmp_path: Path, topic_manifest: Builder, free_ports: Callable[..., int]) -> None:
    port = free_ports()
    local.up(state_dir=tmp_path, port=port, timeout_s=TIMEOUT_S)
    try:
        apply(tmp_path, topic_manifest("lasting", 3))
        assert local.down(state_dir=tmp_path) == ["ottla-main-0"]
        stopped = local.status(state_dir=tmp_path)
        assert stopped is not None
        assert (stopped.exit_code, stopped.nodes[0].state) == (ExitCode.UNHEALTHY, "stopped")

        assert local.up(state_dir=tmp_path, timeout_s=TIMEOUT_S).exit_code == ExitCode.OK
        assert apply(tmp_path, topic_manifest("lasting", 3))[0].action == "unchanged"
    finally:
        local.down(state_dir=tmp_path)


def test_pools_of_a_manifest_are_changed_in_the_manifest(tmp_path: Path, cluster_manifest: Builder) -> None:
    manifest = cluster_manifest()
    manifest["spec"]["pools"][0]["name"] = "own"
    StateDirectory(tmp_path).write(manifest)

    with pytest.raises(ManifestError, match="change their nodes in its manifest"):
        local.up(state_dir=tmp_path, brokers=3)


def test_second_cluster_needs_a_directory_of_its_own(running: Path, cluster_manifest: Builder) -> None:
    (outcome,) = apply(running, cluster_manifest("another"))

    assert outcome.action == "refused"
    assert "already has cluster ottla" in outcome.message
    assert outcome.message.endswith("ottla delete cluster ottla"), "what to do"


def test_empty_directory_has_nothing_to_stop_or_show(tmp_path: Path) -> None:
    assert local.down(state_dir=tmp_path / "none") == []
    assert local.status(state_dir=tmp_path / "none") is None
