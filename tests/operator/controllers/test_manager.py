"""The controller: finalizers, statuses, marks, and a failing API server."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import TOPIC_FINALIZER

Document = dict[str, Any]
Builder = Callable[..., Document]
TOPIC, CLUSTER = ObjectKey("Topic", "kafka", "flights"), ObjectKey("Cluster", "kafka", "demo")


async def marked(controller: ControllerManager, *events: Callable[[], None]) -> set[str]:
    """Return the names that ``events`` mark dirty."""
    for event in events:
        event()
    names = set()
    while len(controller.queue):
        for key in await controller.queue._take():
            names.add(key.name)
            controller.queue._give_back(key, is_settled=True)
    return names


def test_topic_is_made_and_ready(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest())

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert brokers.addresses == ["demo-bootstrap.kafka.svc:9092"]
    assert brokers.topics["flights"].partitions == 6
    assert api.reasons(TOPIC)["Ready"] == ("True", "AsSpecified")


def test_status_is_written_at_once_and_then_only_when_it_changes(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest())
    asyncio.run(controller.reconcile(TOPIC))
    assert api.writes == ["status Topic", "status Topic"]
    api.writes.clear()

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.writes == []


def test_retained_topic_gets_no_finalizer(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(deletionPolicy="Retain"))
    asyncio.run(controller.reconcile(TOPIC))

    assert not [write for write in api.writes if write.startswith("finalizers")]


def test_topic_to_be_deleted_gets_a_finalizer_beside_those_of_others(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(deletionPolicy="Delete"), finalizers=["example.com/other"])
    asyncio.run(controller.reconcile(TOPIC))

    assert api.stored[TOPIC]["metadata"]["finalizers"] == ["example.com/other", TOPIC_FINALIZER]


def test_finalizer_goes_when_the_policy_becomes_retain(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(deletionPolicy="Retain"), finalizers=[TOPIC_FINALIZER])
    asyncio.run(controller.reconcile(TOPIC))

    assert api.stored[TOPIC]["metadata"]["finalizers"] == []


@pytest.fixture
def deleted_topic(api: Any, topic_manifest: Builder, brokers: Any) -> Callable[..., None]:
    def delete(policy: str = "Delete") -> None:
        topic_id = brokers.add_topic("flights")
        manifest = {**topic_manifest(deletionPolicy=policy), "status": {"topicId": topic_id}}
        api.put(manifest, deletionTimestamp="2026-01-02T00:00:00Z", finalizers=[TOPIC_FINALIZER])

    return delete


def test_deleted_topic_is_deleted_before_its_object_goes(
    controller: ControllerManager, api: Any, brokers: Any, deleted_topic: Callable[..., None], with_cluster: Document
) -> None:
    deleted_topic()

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert brokers.topics == {}
    assert api.stored[TOPIC]["metadata"]["finalizers"] == []


@pytest.mark.parametrize("cluster", ["missing", "being-deleted"])
def test_topic_of_a_cluster_that_is_gone_is_released(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    deleted_topic: Callable[..., None],
    cluster_manifest: Builder,
    cluster: str,
) -> None:
    deleted_topic()
    if cluster == "being-deleted":
        api.put(cluster_manifest(), deletionTimestamp="2026-01-02T00:00:00Z")

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.stored[TOPIC]["metadata"]["finalizers"] == []
    assert brokers.changes == []


def test_topic_is_kept_while_its_brokers_cannot_be_reached(
    controller: ControllerManager, api: Any, brokers: Any, deleted_topic: Callable[..., None], with_cluster: Document
) -> None:
    deleted_topic()
    brokers.is_reachable = False

    assert asyncio.run(controller.reconcile(TOPIC)) is False
    assert api.stored[TOPIC]["metadata"]["finalizers"] == [TOPIC_FINALIZER]
    assert api.reasons(TOPIC)["Ready"] == ("False", "BrokerUnreachable")


def test_object_that_never_saw_its_topic_is_released_without_brokers(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    brokers.is_reachable = False
    manifest = topic_manifest(deletionPolicy="Delete")
    api.put(manifest, deletionTimestamp="2026-01-02T00:00:00Z", finalizers=[TOPIC_FINALIZER])

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.stored[TOPIC]["metadata"]["finalizers"] == []


def test_retain_releases_a_deleted_object_even_without_brokers(
    controller: ControllerManager, api: Any, brokers: Any, deleted_topic: Callable[..., None], with_cluster: Document
) -> None:
    deleted_topic("Retain")
    brokers.is_reachable = False

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.stored[TOPIC]["metadata"]["finalizers"] == []


def test_deleted_object_with_a_foreign_finalizer_is_left_alone(
    controller: ControllerManager, api: Any, topic_manifest: Builder
) -> None:
    api.put(topic_manifest(), deletionTimestamp="2026-01-02T00:00:00Z", finalizers=["example.com/other"])

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.writes == []


def test_topic_without_its_cluster_waits_and_says_so(
    controller: ControllerManager, api: Any, topic_manifest: Builder
) -> None:
    api.put(topic_manifest())

    assert asyncio.run(controller.reconcile(TOPIC)) is False
    assert api.reasons(TOPIC)["Reconciling"] == ("True", "ClusterMissing")


def test_topic_waits_for_its_clusters_address(
    controller: ControllerManager, api: Any, topic_manifest: Builder, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest())
    api.put(topic_manifest())

    assert asyncio.run(controller.reconcile(TOPIC)) is False
    assert api.reasons(TOPIC)["Reconciling"] == ("True", "ClusterNotReady")


def test_rejected_topic_is_stalled_and_not_retried(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    brokers.fails["create_topics"] = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too many")
    api.put(topic_manifest())

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.reasons(TOPIC)["Stalled"] == ("True", "InvalidReplicationFactor")


def test_steps_become_events(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest())
    asyncio.run(controller.reconcile(TOPIC))
    asyncio.run(controller.reconcile(TOPIC))

    assert api.events == [("CreateTopic", "create topic flights (6 partitions)", False)]


def test_repeated_steps_are_no_progress(
    controller: ControllerManager, api: Any, with_cluster: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another client reverts every change, or it has no effect, the backoff grows."""
    progress: list[ObjectKey] = []
    monkeypatch.setattr(controller.queue, "progressed", progress.append)

    async def apply(document: Document) -> Document:
        return document

    monkeypatch.setattr(api, "apply", apply)
    for _ in range(3):
        assert asyncio.run(controller.reconcile(CLUSTER)) is False

    assert len(api.events) > 3
    assert progress == [CLUSTER]


def test_rejection_is_one_warning(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(config={"wrong": "1"}))
    for _ in range(3):
        asyncio.run(controller.reconcile(TOPIC))

    ((reason, note, is_warning),) = api.events
    assert (reason, is_warning) == ("InvalidConfig", True)
    assert "Unknown topic config name: wrong" in note


def test_failure_to_record_an_event_has_no_effect(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.fails_events = True
    api.put(topic_manifest())

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.reasons(TOPIC)["Ready"] == ("True", "AsSpecified")


def test_younger_object_for_the_same_topic_is_stalled(
    controller: ControllerManager, api: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(), creationTimestamp="2026-01-01T00:00:01Z")
    api.put(topic_manifest("older", topicName="flights"))

    async def both() -> bool:
        await controller.resync()
        return await controller.reconcile(TOPIC)

    assert asyncio.run(both()) is True
    assert api.reasons(TOPIC)["Stalled"] == ("True", "TopicClaimedElsewhere")


def test_cluster_is_published_and_waited_for(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest())

    assert asyncio.run(controller.reconcile(CLUSTER)) is False
    assert [write for write in api.writes if write.startswith("apply")] == [
        "apply ServiceAccount",
        "apply Service",
        "apply Service",
        "apply ConfigMap",
        "apply StatefulSet",
    ]
    assert api.reasons(CLUSTER)["Reconciling"] == ("True", "PodMissing")
    assert api.stored[CLUSTER]["status"]["bootstrapServers"] == "demo-bootstrap.kafka.svc:9092"


def test_cluster_being_deleted_is_left_to_the_garbage_collector(
    controller: ControllerManager, api: Any, cluster_manifest: Builder
) -> None:
    api.put(cluster_manifest(), deletionTimestamp="2026-01-02T00:00:00Z")

    assert asyncio.run(controller.reconcile(CLUSTER)) is True
    assert api.writes == []


def test_new_state_of_a_cluster_marks_its_topics(
    controller: ControllerManager, api: Any, cluster_manifest: Builder, topic_manifest: Builder
) -> None:
    api.put(cluster_manifest())
    mine, other = topic_manifest("mine"), topic_manifest("other", clusterRef={"name": "else"})

    async def scenario() -> set[str]:
        await marked(controller, lambda: controller.seen(api.put(mine)), lambda: controller.seen(api.put(other)))
        await controller.reconcile(CLUSTER)
        return await marked(controller)

    assert asyncio.run(scenario()) == {"mine"}


def test_missing_object_is_settled(controller: ControllerManager) -> None:
    assert asyncio.run(controller.reconcile(TOPIC)) is True


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(500, "InternalError", "no"), id="api-error"),
        pytest.param(ConnectionResetError("reset"), id="connection"),
        pytest.param(KeyError("a bug of ours"), id="bug"),
    ],
)
def test_error_of_one_object_is_retried_and_affects_no_other(
    controller: ControllerManager, api: Any, error: Exception
) -> None:
    api.fails = error

    assert asyncio.run(controller.reconcile(TOPIC)) is False


def test_conflict_is_reconciled_again_without_a_warning(
    controller: ControllerManager,
    api: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.put(topic_manifest())
    apply_status = api.apply_status

    async def be_slower(document: Document, status: Document) -> Document:
        monkeypatch.undo()
        stored = api.stored[TOPIC]
        stored["status"] = {"partitions": 3}
        stored["metadata"]["resourceVersion"] = "2"
        return dict(await apply_status(document, status))

    monkeypatch.setattr(api, "apply_status", be_slower)

    assert asyncio.run(controller.reconcile(TOPIC)) is False
    assert api.stored[TOPIC]["status"] == {"partitions": 3}
    assert not [it for it in caplog.records if it.levelname != "INFO"]
    ended = {"kind": "Topic", "verdict": "Conflict"}
    assert controller._metrics.registry.get_sample_value("ottla_operator_reconciles_total", ended) == 1

    assert asyncio.run(controller.reconcile(TOPIC)) is True
    assert api.reasons(TOPIC)["Ready"] == ("True", "AsSpecified")


def test_own_status_writes_do_not_mark_an_object_again(
    controller: ControllerManager, api: Any, topic_manifest: Builder
) -> None:
    first = api.put(topic_manifest())
    changes = [
        first,
        {**first, "status": {"partitions": 6}},
        api.put(topic_manifest(), generation=2),
        api.put(topic_manifest(), generation=2, finalizers=["x"]),
        api.put(topic_manifest(), generation=2, finalizers=["x"], annotations={"mine": "now"}),
    ]

    async def scenario() -> list[set[str]]:
        return [await marked(controller, partial(controller.seen, document)) for document in changes]

    assert asyncio.run(scenario()) == [{"flights"}, set(), {"flights"}, {"flights"}, {"flights"}]


def test_resync_marks_everything(
    controller: ControllerManager, api: Any, topic_manifest: Builder, cluster_manifest: Builder
) -> None:
    api.put(topic_manifest())
    api.put(cluster_manifest())

    async def scenario() -> list[set[str]]:
        await controller.resync()
        first = await marked(controller)
        await controller.resync()
        return [first, await marked(controller)]

    assert asyncio.run(scenario()) == [{"flights", "demo"}, {"flights", "demo"}]


def test_resync_removes_objects_deleted_without_an_event(
    controller: ControllerManager, api: Any, topic_manifest: Builder
) -> None:
    older = api.put(topic_manifest("older", topicName="flights"))
    api.put(topic_manifest(), creationTimestamp="2026-01-01T00:00:01Z")

    async def scenario() -> list[set[str]]:
        await controller.resync()
        await marked(controller)
        del api.stored[ObjectKey("Topic", "kafka", "older")]  # while no watch was open
        await controller.resync()
        first = await marked(controller)
        assert await controller.reconcile(TOPIC) is False, "it waits for its cluster, not for the older claim"
        return [first, await marked(controller, lambda: controller.gone(older))]

    assert asyncio.run(scenario()) == [{"flights"}, set()]


@pytest.mark.parametrize("undefined", [{"Cluster"}, {"User"}, {"Cluster", "User"}])
def test_resync_marks_objects_of_installed_kinds_if_a_crd_is_missing(
    controller: ControllerManager, api: Any, topic_manifest: Builder, cluster_manifest: Builder, undefined: set[str]
) -> None:
    api.put(topic_manifest())
    if "Cluster" not in undefined:
        api.put(cluster_manifest())
    api.undefined = undefined

    async def scenario() -> set[str]:
        with pytest.raises(ApiError, match="404 page not found"):
            await controller.resync()
        return await marked(controller)

    assert asyncio.run(scenario()) == {"flights"} | ({"demo"} if "Cluster" not in undefined else set())


def test_deletion_of_a_topic_marks_other_claimants(
    controller: ControllerManager, api: Any, topic_manifest: Builder
) -> None:
    first, second = api.put(topic_manifest("first", topicName="t")), api.put(topic_manifest("second", topicName="t"))
    bystander = api.put(topic_manifest("bystander"))

    async def scenario() -> set[str]:
        await marked(controller, *(lambda it=it: controller.seen(it) for it in (first, second, bystander)))
        return await marked(controller, lambda: controller.gone(first))

    assert asyncio.run(scenario()) == {"second"}


def test_deletion_of_a_cluster_marks_its_topics(
    controller: ControllerManager, api: Any, topic_manifest: Builder, cluster_manifest: Builder
) -> None:
    inside, outside = topic_manifest("inside"), topic_manifest("outside", clusterRef={"name": "else"})
    cluster = api.put(cluster_manifest())

    async def scenario() -> set[str]:
        await marked(controller, *(lambda it=it: controller.seen(api.put(it)) for it in (inside, outside)))
        return await marked(controller, lambda: controller.gone(cluster))

    assert asyncio.run(scenario()) == {"inside"}


def test_change_of_a_child_marks_its_cluster(controller: ControllerManager) -> None:
    async def scenario() -> set[str]:
        return await marked(controller, lambda: controller.child_seen("kafka", "demo"))

    assert asyncio.run(scenario()) == {"demo"}
