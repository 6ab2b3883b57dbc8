"""Manifests on a local host: effects of apply, get and delete on topics, stored objects and exit codes."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla_operator import local
from ottla_operator.errors import ManifestError, OperatorError
from ottla_operator.local import ExitCode

Document = dict[str, Any]
Builder = Callable[..., Document]


class Laptop:
    """One state directory and the brokers behind an explicit bootstrap address."""

    def __init__(self, state_dir: Path, brokers: Any) -> None:
        self.state_dir = state_dir
        self.brokers = brokers

    def _common(self) -> Document:
        return {"state_dir": self.state_dir, "bootstrap": "broker:9092", "connect": self.brokers.connect}

    def apply(self, *manifests: Document, **options: Any) -> list[local.Outcome]:
        return local.apply(manifests, **{"timeout_s": 0, **self._common(), **options})

    def get(self, kind: str = "topics", name: str | None = None) -> list[Document]:
        return local.get(kind, name, **self._common())

    def delete(self, name: str = "flights") -> local.Outcome:
        return local.delete("topic", name, timeout_s=0, **self._common())


@pytest.fixture
def laptop(tmp_path: Path, brokers: Any) -> Laptop:
    return Laptop(tmp_path / "state", brokers)


def ready(document: Document) -> tuple[str, str]:
    (condition,) = [it for it in document["status"]["conditions"] if it["type"] == "Ready"]
    return condition["status"], condition["reason"]


def stalled(document: Document) -> str:
    (condition,) = [it for it in document["status"]["conditions"] if it["type"] == "Stalled"]
    status: str = condition["status"]
    return status


def test_applied_topic_exists_and_is_ready(laptop: Laptop, topic_manifest: Builder) -> None:
    (outcome,) = laptop.apply(topic_manifest(config={"retention.ms": "60000"}))

    assert (outcome.action, outcome.exit_code) == ("created", ExitCode.OK)
    assert laptop.brokers.topics["flights"].partitions == 6
    assert laptop.brokers.configs["flights"] == {"retention.ms": "60000"}
    (stored,) = laptop.get()
    assert ready(stored) == ("True", "AsSpecified")
    assert stored["status"]["topicId"] == "id-1"
    assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"] == 1


def test_applying_twice_changes_nothing(laptop: Laptop, topic_manifest: Builder) -> None:
    manifest = topic_manifest(config={"retention.ms": "60000"})
    laptop.apply(manifest)
    before, changes = laptop.get(), list(laptop.brokers.changes)

    (outcome,) = laptop.apply(manifest)

    assert (outcome.action, outcome.exit_code, outcome.steps) == ("unchanged", ExitCode.OK, ())
    assert laptop.brokers.changes == changes
    assert laptop.get() == before


def test_what_get_prints_can_be_applied_again(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest())

    (outcome,) = laptop.apply(*laptop.get())

    assert outcome.action == "unchanged"


def test_more_partitions_are_made(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest(partitions=6))

    (outcome,) = laptop.apply(topic_manifest(partitions=8))

    assert outcome.action == "configured"
    assert outcome.steps == ("grow topic flights to 8 partitions",)
    (stored,) = laptop.get()
    assert stored["status"]["partitions"] == 8
    assert stored["metadata"]["generation"] == 2


def test_fewer_partitions_are_rejected_and_the_stored_manifest_stays(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest(partitions=6))
    changes = list(laptop.brokers.changes)

    (outcome,) = laptop.apply(topic_manifest(partitions=5, config={"retention.ms": "1"}))

    assert (outcome.action, outcome.exit_code, outcome.reason) == ("refused", ExitCode.ERROR, "Invalid")
    assert "partitions can only grow" in outcome.message
    assert laptop.brokers.changes == changes
    (stored,) = laptop.get()
    assert stored["spec"]["partitions"] == 6
    assert ready(stored) == ("True", "AsSpecified")


def test_topic_with_more_partitions_is_rejected(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.brokers.add_topic("flights", partitions=9)

    (outcome,) = laptop.apply(topic_manifest(partitions=6))

    assert (outcome.reason, outcome.exit_code) == ("PartitionsCannotDecrease", ExitCode.ERROR)
    assert laptop.brokers.changes == []
    assert outcome.manifest is not None
    assert stalled(outcome.manifest) == "True"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"config": {"retention": "1"}}, "InvalidConfig", id="wrong-config-key"),
        pytest.param({"replicationFactor": 3}, "ReplicationFactorTooLarge", id="impossible-replication-factor"),
    ],
)
def test_rejected_topic_is_stalled_and_not_created(
    laptop: Laptop, topic_manifest: Builder, spec: Document, reason: str
) -> None:
    (outcome,) = laptop.apply(topic_manifest(**spec))

    assert (outcome.action, outcome.reason, outcome.exit_code) == ("refused", reason, ExitCode.ERROR)
    assert laptop.brokers.topics == {}
    assert outcome.manifest is not None
    assert ready(outcome.manifest) == ("False", reason)
    assert stalled(outcome.manifest) == "True"
    assert outcome.manifest["status"]["partitions"] == 0


def test_rejected_topic_can_be_corrected(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest(replicationFactor=3, partitions=600))

    (outcome,) = laptop.apply(topic_manifest(replicationFactor=1, partitions=6))

    assert outcome.exit_code == ExitCode.OK
    assert laptop.brokers.topics["flights"].partitions == 6


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"partitions": 8, "config": {"wrong": "1"}}, id="good-partitions-wrong-config"),
        pytest.param({"partitions": 5_000, "config": {"retention.ms": "1"}}, id="good-config-too-many-partitions"),
    ],
)
def test_change_with_a_rejected_part_changes_nothing(laptop: Laptop, topic_manifest: Builder, spec: Document) -> None:
    laptop.apply(topic_manifest())
    changes = list(laptop.brokers.changes)

    (outcome,) = laptop.apply(topic_manifest(**spec))

    assert outcome.action == "refused"
    assert laptop.brokers.changes == changes


def test_unreachable_brokers_are_waited_for_until_the_time_is_over(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.brokers.is_reachable = False

    (outcome,) = laptop.apply(topic_manifest())

    assert (outcome.action, outcome.reason, outcome.exit_code) == ("waiting", "BrokerUnreachable", ExitCode.TIMEOUT)
    assert outcome.manifest is not None
    assert ready(outcome.manifest) == ("False", "BrokerUnreachable")


def test_forbidden_topic_is_denied(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.brokers.fails["create_topics"] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")

    (outcome,) = laptop.apply(topic_manifest())

    assert (outcome.reason, outcome.exit_code) == ("TopicAuthorizationFailed", ExitCode.DENIED)


def test_without_a_cluster_the_next_command_is_named(laptop: Laptop, topic_manifest: Builder) -> None:
    (outcome,) = laptop.apply(topic_manifest(), bootstrap=None)

    assert (outcome.reason, outcome.exit_code) == ("ClusterMissing", ExitCode.ERROR)
    assert "ottla up" in outcome.message


def test_dry_run_says_what_it_would_do_and_does_nothing(laptop: Laptop, topic_manifest: Builder) -> None:
    (outcome,) = laptop.apply(topic_manifest(), dry_run=True)

    assert (outcome.action, outcome.message) == ("planned", "would create topic flights (6 partitions)")
    assert laptop.brokers.changes == []
    assert not laptop.state_dir.exists()


def test_dry_run_of_what_is_there_is_unchanged(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest())

    (outcome,) = laptop.apply(topic_manifest(), dry_run=True)

    assert outcome.action == "unchanged"


def test_rejected_manifest_does_not_stop_the_others(laptop: Laptop, topic_manifest: Builder) -> None:
    outcomes = laptop.apply(topic_manifest("a", partitions=0), {"kind": "Nonsense"}, topic_manifest("b"))

    assert [outcome.action for outcome in outcomes] == ["refused", "refused", "created"]


def test_second_object_for_the_same_topic_is_rejected(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest("a-first", topicName="shared"))

    (outcome,) = laptop.apply(topic_manifest("b-second", topicName="shared", partitions=9))

    assert outcome.reason == "TopicClaimedElsewhere"
    assert laptop.brokers.topics["shared"].partitions == 6


def test_get_shows_the_present_status(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest())
    del laptop.brokers.topics["flights"]

    (seen,) = laptop.get()

    assert ready(seen) == ("False", "OutOfSync")
    assert "create topic flights" in seen["status"]["conditions"][0]["message"]


def test_get_still_shows_why_brokers_rejected(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest(replicationFactor=3))

    (seen,) = laptop.get()

    assert ready(seen) == ("False", "ReplicationFactorTooLarge")
    assert stalled(seen) == "True"


@pytest.mark.parametrize("kind", ["Topic", "topic", "topics", "ot", "topics.ottla.dev"])
def test_get_knows_every_form_of_a_kind(laptop: Laptop, topic_manifest: Builder, kind: str) -> None:
    laptop.apply(topic_manifest("b"), topic_manifest("a"))

    assert [it["metadata"]["name"] for it in laptop.get(kind)] == ["a", "b"]
    assert [it["metadata"]["name"] for it in laptop.get(kind, "b")] == ["b"]
    assert laptop.get(kind, "c") == []


def test_get_rejects_an_unknown_kind(laptop: Laptop) -> None:
    with pytest.raises(OperatorError, match="there is no kind 'group'"):
        laptop.get("group")


@pytest.mark.parametrize(
    ("policy", "action", "topics"),
    [pytest.param("Delete", "deleted", [], id="delete"), pytest.param("Retain", "retained", ["flights"], id="retain")],
)
def test_deletion_follows_the_policy(
    laptop: Laptop, topic_manifest: Builder, policy: str, action: str, topics: list[str]
) -> None:
    laptop.apply(topic_manifest(deletionPolicy=policy))

    outcome = laptop.delete()

    assert (outcome.action, outcome.exit_code) == (action, ExitCode.OK)
    assert list(laptop.brokers.topics) == topics
    assert laptop.get() == []


def test_deleting_what_is_not_there_is_not_found(laptop: Laptop) -> None:
    assert laptop.delete().exit_code == ExitCode.NOT_FOUND


def test_object_stays_while_its_topic_cannot_be_deleted(laptop: Laptop, topic_manifest: Builder) -> None:
    laptop.apply(topic_manifest(deletionPolicy="Delete"))
    laptop.brokers.is_reachable = False

    outcome = laptop.delete()

    assert outcome.exit_code == ExitCode.TIMEOUT
    laptop.brokers.is_reachable = True
    assert len(laptop.get()) == 1


def test_manifests_are_read_from_files_folders_and_streams(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: B\n---\n---\nkind: C\n")
    (tmp_path / "a.yaml").write_text('{"kind": "A"}')

    documents = local.read_manifests([tmp_path, tmp_path / "a.yaml", io.StringIO("kind: D")])

    assert [document["kind"] for document in documents] == ["A", "B", "C", "A", "D"]


@pytest.mark.parametrize("text", ["- 1", "just words", "a: [", "kind: A\n---\n5"])
def test_invalid_document_is_rejected(text: str) -> None:
    with pytest.raises(ManifestError):
        local.read_manifests([io.StringIO(text)])
