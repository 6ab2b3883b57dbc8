"""A resync lists each kind once: a Topic or User of the list is read again only if it may have changed since."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fake_api import FakeApi

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
Builder = Callable[..., Document]
TOPIC = ObjectKey("Topic", "kafka", "flights")


@pytest.fixture
def reads(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds of single objects that are read, from now on."""
    found: list[str] = []
    get = api.get

    async def recorded(kind: str, namespace: str, name: str) -> Document | None:
        found.append(kind)
        return await get(kind, namespace, name)

    monkeypatch.setattr(api, "get", recorded)
    return found


def retention_ms(brokers: Any) -> str:
    return str(brokers.configs["flights"]["retention.ms"])


def test_listed_topic_is_not_read_once_more(
    controller: ControllerManager, api: FakeApi, topic_manifest: Builder, with_cluster: Document, reads: list[str]
) -> None:
    api.put(topic_manifest())

    async def scenario() -> list[list[str]]:
        await controller.resync()
        assert await controller.reconcile(TOPIC)
        listed = list(reads)
        assert await controller.reconcile(TOPIC)
        return [listed, reads[len(listed) :]]

    listed, later = asyncio.run(scenario())

    assert "Topic" not in listed
    assert "Topic" in later, "a list is used once"


@pytest.mark.parametrize("has_event", [True, False], ids=["seen", "lost-event"])
def test_topic_that_changes_after_the_list_is_reconciled_as_it_is(
    controller: ControllerManager,
    api: FakeApi,
    brokers: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    has_event: bool,
) -> None:
    api.put(topic_manifest(config={"retention.ms": "1"}))
    changed = partial(api.put, topic_manifest(config={"retention.ms": "2"}), generation=2, resourceVersion="9")

    async def scenario() -> bool:
        await controller.resync()
        document = changed()
        if has_event:
            controller.seen(document)
        is_settled = await controller.reconcile(TOPIC)
        return is_settled if has_event else await controller.reconcile(TOPIC)

    assert asyncio.run(scenario()), "without its event, the first status was rejected as outdated"
    assert retention_ms(brokers) == "2"


def test_topic_that_was_listed_during_its_reconciliation_is_read_again(
    controller: ControllerManager,
    api: FakeApi,
    brokers: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    reads: list[str],
) -> None:
    """The list has the status of before."""
    api.put(topic_manifest())
    describe, resyncs = brokers.describe_topics, [controller.resync]

    async def with_one_resync(names: Any) -> Any:
        while resyncs:
            await resyncs.pop()()
        return await describe(names)

    async def scenario() -> list[str]:
        assert await controller.reconcile(TOPIC)
        reads.clear()
        assert await controller.reconcile(TOPIC)
        return reads

    monkeypatch.setattr(brokers, "describe_topics", with_one_resync)

    assert "Topic" in asyncio.run(scenario())
    assert not resyncs
