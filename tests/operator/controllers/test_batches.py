"""Many objects in one reconciliation: their cost together, and their independence."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.controllers.topic import reconciler as topic_reconciler
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.concurrency import CONCURRENT_CALLS_MAX, gather_limited

Document = dict[str, Any]
Builder = Callable[..., Document]


def keys(kind: str, count: int) -> list[ObjectKey]:
    return [ObjectKey(kind, "kafka", f"{kind.lower()}-{number}") for number in range(count)]


def applied(api: Any, manifest: Builder, kind: str, count: int) -> list[ObjectKey]:
    """Store that many new objects in ``api``; return their keys."""
    made = keys(kind, count)
    for key in made:
        api.put(manifest(key.name))
    return made


def test_topics_share_a_connection_and_an_observation(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    asked = applied(api, topic_manifest, "Topic", 40)

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked)
    assert {api.reasons(key)["Ready"][0] for key in asked} == {"True"}
    assert len(brokers.addresses) == 1
    assert brokers.requests == ["describe 40", "create 40", "describe 40"]
    assert api.writes == ["status Topic"] * 80, "each once before its topic is created, and once when it is there"
    api.writes.clear()

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked)
    assert api.writes == [], "nothing has changed"
    assert brokers.requests[3:] == ["describe 40"]


def test_users_are_described_together(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    asked = applied(api, user_manifest, "User", 20)
    asyncio.run(controller.reconcile_batch(asked))
    api.writes.clear()
    brokers.changes.clear()

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked)
    assert (api.writes, brokers.changes) == ([], [])
    assert {api.reasons(key)["Ready"][0] for key in asked} == {"True"}


def test_deleted_objects_do_not_affect_the_batch(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    gone, going, there = keys("Topic", 3)
    api.put(topic_manifest(there.name))
    brokers.add_topic(going.name)
    api.put(
        {**topic_manifest(going.name, deletionPolicy="Delete"), "status": {"topicId": "id-1"}},
        deletionTimestamp="2026-01-02T00:00:00Z",
        finalizers=["ottla.dev/topic"],
    )

    assert asyncio.run(controller.reconcile_batch([gone, going, there])) == {gone, going, there}
    assert list(brokers.topics) == [there.name]
    assert api.stored[going]["metadata"]["finalizers"] == []


def test_only_the_rejected_status_is_retried(
    controller: ControllerManager,
    api: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = applied(api, topic_manifest, "Topic", 5)
    apply_status = api.apply_status

    async def reject(document: Document, status: Document) -> Document:
        if document["metadata"]["name"] == "topic-3" and status.get("partitions"):
            raise ApiError(409, "Conflict", "somebody else was faster")
        return await apply_status(document, status)

    monkeypatch.setattr(api, "apply_status", reject)
    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked) - {asked[3]}
    monkeypatch.undo()

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked)
    assert {api.reasons(key)["Ready"][0] for key in asked} == {"True"}
    assert "adopted" not in api.stored[asked[3]]["status"], "its topic was created for it"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(404, "NotFound", "it has just gone"), id="waited-for"),
        pytest.param(ApiError(422, "Invalid", "a webhook says no"), id="rejected"),
        pytest.param(KeyError("a bug of ours"), id="bug"),
    ],
)
def test_topic_whose_status_cannot_be_written_is_not_created_and_all_others_are(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    asked = applied(api, topic_manifest, "Topic", 5)
    apply_status = api.apply_status

    async def reject(document: Document, status: Document) -> Document:
        if document["metadata"]["name"] == "topic-3":
            raise error
        return await apply_status(document, status)

    monkeypatch.setattr(api, "apply_status", reject)

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked) - {asked[3]}
    assert {api.reasons(key)["Ready"][0] for key in asked if key != asked[3]} == {"True"}
    assert "topic-3" not in brokers.topics


def test_unexpected_error_of_one_object_affects_no_other(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = applied(api, topic_manifest, "Topic", 5)
    older_claim = topic_reconciler.older_claim

    def buggy(member: Any, others: Any) -> ObjectKey | None:
        if member.metadata.name == "topic-2":
            raise KeyError("a bug of ours")
        return older_claim(member, others)

    monkeypatch.setattr(topic_reconciler, "older_claim", buggy)

    assert asyncio.run(controller.reconcile_batch(asked)) == set(asked) - {asked[2]}
    assert sorted(brokers.topics) == ["topic-0", "topic-1", "topic-3", "topic-4"]


def test_members_of_an_unreadable_cluster_keep_their_status(
    controller: ControllerManager,
    api: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = applied(api, topic_manifest, "Topic", 5)
    get, reads = api.get, []

    async def without_cluster(kind: str, namespace: str, name: str) -> Document | None:
        if kind != "Cluster":
            return dict(await get(kind, namespace, name))
        reads.append(name)
        raise TimeoutError("no answer")

    monkeypatch.setattr(api, "get", without_cluster)

    assert asyncio.run(controller.reconcile_batch(asked)) == set()
    assert api.writes == []
    assert len(reads) == 1, "one request for all"


def test_object_recreated_for_another_cluster_is_queued_there(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    async def scenario() -> list[ObjectKey]:
        (key,) = keys("Topic", 1)
        controller.seen(api.put(topic_manifest(key.name)))
        (taken,) = await controller.queue._take()
        api.put(topic_manifest(key.name, clusterRef={"name": "other"}))
        assert await controller.reconcile_batch([taken]) == {taken}
        controller.queue._give_back(taken, is_settled=True)
        assert controller.queue._group(key) == ObjectKey("Cluster", "kafka", "other")
        return await controller.queue._take()

    assert asyncio.run(scenario()) == keys("Topic", 1)
    assert brokers.changes == []


def test_calls_are_concurrent_up_to_a_limit() -> None:
    under_way, most = 0, 0

    async def call(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if number == 3:
            raise ValueError("three")
        return number

    found = asyncio.run(gather_limited({number: call(number) for number in range(50)}))

    assert most == CONCURRENT_CALLS_MAX
    assert [it for it in found.values() if isinstance(it, int)] == [number for number in range(50) if number != 3]
    assert isinstance(found[3], ValueError)
