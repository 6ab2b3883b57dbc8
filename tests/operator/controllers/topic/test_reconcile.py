"""Reconciling many Topics: one observation for all, a readiness for each, and adoption of existing topics."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.controllers.topic.reconcile import DeletedTopic, DesiredTopic, delete_topics, reconcile_topics
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.conditions import Held, Reached, Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.ports.broker_admin import NewTopic

Document = dict[str, Any]
Builder = Callable[..., Document]
Topics = Callable[..., Topic]


class RecordingReconciler:
    """Reconciles topics, and records what was written before their first steps."""

    def __init__(self, brokers: Any) -> None:
        self.brokers = brokers
        self.kept: list[tuple[str, ReconcileResult, list[str]]] = []
        """Topic, status fields, and the changes on brokers so far."""

    def reconcile(self, *topics: Topic | DesiredTopic, **options: Any) -> list[ReconcileResult]:
        async def keep(topic: Topic, outcome: ReconcileResult) -> None:
            self.kept.append((topic.topic_name, outcome, list(self.brokers.changes)))

        asked = [it if isinstance(it, DesiredTopic) else DesiredTopic(it) for it in topics]
        return list(asyncio.run(reconcile_topics(asked, self.brokers, keep=keep, **options)).values())


@pytest.fixture
def reconciler(brokers: Any) -> RecordingReconciler:
    return RecordingReconciler(brokers)


@pytest.fixture
def topic(topic_manifest: Builder) -> Topics:
    """Return a builder of Topics: ``topic("a", status={...}, partitions=1, **spec)``."""

    def build(name: str = "flights", *, status: Document | None = None, **spec: Any) -> Topic:
        return Topic.parse({**topic_manifest(name, **spec), "status": status or {}})

    return build


class TestManyTopics:
    def test_topics_are_described_and_created_together(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        outcomes = reconciler.reconcile(*(topic(f"t{number}") for number in range(30)))

        assert {type(it.readiness) for it in outcomes} == {Reached}
        assert brokers.requests == ["describe 30", "create 30", "describe 30"]

    @pytest.mark.parametrize(
        ("partitions", "batches"),
        [
            pytest.param([1] * 101, [100, 1], id="too-many-topics"),
            pytest.param([500, 500, 1], [2, 1], id="too-many-partitions"),
            pytest.param([1, 5_000, 1], [1, 1, 1], id="one-that-is-too-large-by-itself"),
        ],
    )
    def test_topics_are_created_in_batches_that_brokers_accept(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics, partitions: list[int], batches: list[int]
    ) -> None:
        reconciler.reconcile(*(topic(f"t{number}", partitions=count) for number, count in enumerate(partitions)))

        asked = [int(it.split()[1]) for it in brokers.requests if it.startswith("create")]
        assert asked == batches

    def test_rejection_of_one_affects_no_other(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        good, bad, late = reconciler.reconcile(topic("good"), topic("bad", config={"wrong": "1"}), topic("late"))

        assert isinstance(bad.readiness, Rejected)
        assert bad.readiness.reason == "InvalidConfig"
        assert [type(it.readiness) for it in (good, late)] == [Reached, Reached]
        assert sorted(brokers.topics) == ["good", "late"]

    def test_changes_of_each_topic_are_its_own(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        grows, shrinks, fine = reconciler.reconcile(
            *(
                topic(name, partitions=wanted, status={"topicId": brokers.add_topic(name, partitions=6)})
                for name, wanted in [("grows", 7), ("shrinks", 5), ("fine", 6)]
            )
        )

        assert [type(it.readiness) for it in (grows, shrinks, fine)] == [Reached, Rejected, Reached]
        assert brokers.changes == ["partitions grows 7"]
        assert (grows.facts["partitions"], fine.done) == (7, ())

    def test_creation_without_a_response_stops_only_creations(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic_id = brokers.add_topic("there", partitions=6)

        async def silent(_: Sequence[NewTopic]) -> dict[str, KafkaError]:
            raise BrokerUnreachableError("no broker responds")

        monkeypatch.setattr(brokers, "create_topics", silent)
        new, there = reconciler.reconcile(topic("new"), topic("there", partitions=8, status={"topicId": topic_id}))

        assert isinstance(new.readiness, Waiting)
        assert new.readiness.reason == "BrokerUnreachable"
        assert isinstance(there.readiness, Reached)

    def test_topics_share_the_limit_of_reassignments(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.broker_ids = (0, 1)
        ids = {name: brokers.add_topic(name, partitions=60) for name in ("a", "b", "c")}
        topics = [
            topic(name, partitions=60, replicationFactor=2, status={"topicId": ids[name]}) for name in ("a", "b", "c")
        ]

        outcomes = reconciler.reconcile(*topics)

        assert len(brokers.moving) == 100
        assert [it.readiness.message for it in outcomes if isinstance(it.readiness, Waiting)] == [
            "0 of 60 partitions have 2 replicas, reassigning the others",
            "0 of 60 partitions have 2 replicas, reassigning 40, 20 have to wait",
            "0 of 60 partitions have 2 replicas, reassigning 0, 60 have to wait",
        ]
        brokers.finish_moves()
        reconciler.reconcile(*topics)
        brokers.finish_moves()
        assert [type(it.readiness) for it in reconciler.reconcile(*topics)] == [Reached] * 3

    def test_are_deleted_each_by_its_own_right(self, brokers: Any, topic: Topics) -> None:
        ids = {name: brokers.add_topic(name) for name in ("mine", "kept", "inherited")}
        mine = topic("mine", deletionPolicy="Delete", status={"topicId": ids["mine"]})
        kept = topic("kept", deletionPolicy="Retain", status={"topicId": ids["kept"]})
        inherited = topic("inherited", deletionPolicy="Delete", status={"topicId": ids["inherited"]})
        gone = topic("gone", deletionPolicy="Delete", status={"topicId": "id-9"})
        heir = ObjectKey("Topic", "", "heir")

        outcomes = asyncio.run(
            delete_topics(
                [DeletedTopic(kept), DeletedTopic(mine), DeletedTopic(inherited, heir), DeletedTopic(gone)], brokers
            )
        )

        reasons = [outcomes[it.metadata.key].readiness.reason for it in (kept, mine, inherited, gone)]
        assert reasons == ["Retained", "Deleted", "HandedOver", "Gone"]
        assert brokers.changes == ["delete mine"]


class TestAdoption:
    def test_differences_are_named_before_they_are_removed(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.add_topic("flights", partitions=6, config={"retention.ms": "5", "segment.bytes": "9"})

        (outcome,) = reconciler.reconcile(
            topic(partitions=8, config={"retention.ms": "7", "cleanup.policy": "compact"})
        )

        ((name, kept, changes_before),) = reconciler.kept
        assert (name, changes_before) == ("flights", [])
        assert kept.readiness.reason == "Adopting"
        assert kept.readiness.message == (
            "take over topic flights, which was there before (6 partitions, replication factor 1); it differs: "
            "cleanup.policy is not set, and becomes compact, retention.ms is 5, and becomes 7, "
            "segment.bytes is 9, and becomes its default, 6 partitions, which become 8"
        )
        assert kept.facts["topicId"] == "id-1"
        assert isinstance(outcome.readiness, Reached)
        assert [type(step).__name__ for step in outcome.done] == ["AdoptTopic", "AlterTopicConfigs", "CreatePartitions"]

    def test_topic_as_specified_is_adopted_without_a_change(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(topic())

        assert [str(step) for step in outcome.done] == [
            "take over topic flights, which was there before (6 partitions, replication factor 1)"
        ]
        assert (outcome.facts["adopted"], brokers.changes) == (True, [])

    @pytest.mark.parametrize(
        "status",
        [
            pytest.param({"topicId": "id-1", "partitions": 6}, id="its-own"),
            pytest.param({"partitions": 0}, id="made-just-before-a-kill"),
        ],
    )
    def test_managed_topic_is_not_adopted(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics, status: Document
    ) -> None:
        brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(topic(status=status))

        assert (outcome.done, reconciler.kept, "adopted" in outcome.facts) == ((), [], False)

    def test_recreated_topic_is_adopted(self, reconciler: RecordingReconciler, brokers: Any, topic: Topics) -> None:
        brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(topic(status={"topicId": "id-0", "partitions": 6}))

        assert (outcome.facts["adopted"], outcome.facts["topicId"]) == (True, "id-1")

    def test_creation_is_recorded_before_it_is_executed(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        """Otherwise an operator after a kill would take its own topic for a foreign one."""
        (outcome,) = reconciler.reconcile(topic())

        ((_, kept, changes_before),) = reconciler.kept
        assert changes_before == []
        assert (kept.facts["partitions"], kept.facts["topicId"]) == (0, None)
        assert "adopted" not in outcome.facts

    def test_topic_with_more_partitions_is_not_adopted(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.add_topic("flights", partitions=9)

        (outcome,) = reconciler.reconcile(topic(deletionPolicy="Delete"))

        assert isinstance(outcome.readiness, Rejected)
        assert outcome.readiness.reason == "PartitionsCannotDecrease"
        assert outcome.facts == {}, "so that it is not deleted with the object"

    def test_topic_of_an_older_object_is_not_adopted(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(DesiredTopic(topic(), ObjectKey("Topic", "", "older")))

        assert (outcome.facts, outcome.done) == ({}, ())


class TestPaused:
    def test_status_names_differences_and_nothing_is_changed(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        topic_id = brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(topic(paused=True, partitions=7, status={"topicId": topic_id}))

        assert outcome.readiness == Held("Paused", "spec.paused is true; next: grow topic flights to 7 partitions")
        assert (brokers.changes, reconciler.kept, outcome.facts["partitions"]) == ([], [], 6)

    def test_topic_is_not_created(self, reconciler: RecordingReconciler, brokers: Any, topic: Topics) -> None:
        (outcome,) = reconciler.reconcile(topic(paused=True))

        assert isinstance(outcome.readiness, Held)
        assert (brokers.topics, reconciler.kept) == ({}, [])

    def test_status_names_the_changes_of_a_pending_adoption(
        self, reconciler: RecordingReconciler, brokers: Any, topic: Topics
    ) -> None:
        brokers.add_topic("flights", partitions=6, config={"retention.ms": "5"})

        (outcome,) = reconciler.reconcile(topic(paused=True))

        assert "it differs: retention.ms is 5, and becomes its default" in outcome.readiness.message
        assert (brokers.changes, outcome.facts) == ([], {}), "it is not adopted yet"

    def test_topic_as_specified_is_ready(self, reconciler: RecordingReconciler, brokers: Any, topic: Topics) -> None:
        topic_id = brokers.add_topic("flights", partitions=6)

        (outcome,) = reconciler.reconcile(topic(paused=True, status={"topicId": topic_id}))

        assert isinstance(outcome.readiness, Reached)


def test_brokers_that_cannot_be_described_leave_every_topic_as_it_was(
    reconciler: RecordingReconciler, brokers: Any, topic: Topics
) -> None:
    brokers.fails["describe_topics"] = KafkaError(ErrorCode.NOT_CONTROLLER)

    for outcome in reconciler.reconcile(topic("a"), topic("b")):
        assert isinstance(outcome.readiness, Waiting)
        assert (outcome.facts, outcome.is_seen) == ({}, False)
