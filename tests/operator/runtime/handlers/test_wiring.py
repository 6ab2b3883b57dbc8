"""kopf's side: which events are handled, and that handlers only mark."""

import asyncio
from typing import Any, cast

import kopf
import pytest

from ottla_operator.runtime import handlers
from ottla_operator.runtime.handlers.events import mark

Document = dict[str, Any]


class Diary:
    """Records marks in place of the controller."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, ...]] = []

    def seen(self, document: Document) -> None:
        self.marks.append(("seen", document["apiVersion"], document["kind"], document["metadata"]["name"]))

    def gone(self, document: Document) -> None:
        self.marks.append(("gone", document["apiVersion"], document["kind"], document["metadata"]["name"]))

    def child_seen(self, namespace: str, cluster: str) -> None:
        self.marks.append(("child", namespace, cluster))


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def registry(diary: Diary) -> kopf.OperatorRegistry:
    result = kopf.OperatorRegistry()
    handlers.register(result, diary)
    return result


def registered(registry: kopf.OperatorRegistry) -> dict[str, Any]:
    return {handler.selector.any_name: handler for handler in registry._watching.get_all_handlers()}


def test_our_kinds_and_their_stateful_sets_are_watched(registry: kopf.OperatorRegistry) -> None:
    assert set(registered(registry)) == {"clusters", "topics", "users", "statefulsets"}


def test_kopf_has_no_handler_that_would_write_on_objects(registry: kopf.OperatorRegistry) -> None:
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    assert not list(registry._webhooks.get_all_handlers())


@pytest.mark.parametrize(
    ("event_type", "mark_name"),
    [(None, "seen"), ("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "gone")],
    ids=["first-listing", "added", "modified", "deleted"],
)
@pytest.mark.parametrize(("plural", "kind"), [("topics", "Topic"), ("clusters", "Cluster"), ("users", "User")])
def test_event_becomes_a_mark(
    registry: kopf.OperatorRegistry, diary: Diary, event_type: str | None, mark_name: str, plural: str, kind: str
) -> None:
    event = {"type": event_type, "object": {"metadata": {"name": "x", "namespace": "kafka"}}}

    asyncio.run(registered(registry)[plural].fn(event=event))

    assert diary.marks == [(mark_name, "ottla.dev/v1", kind, "x")]


def test_stateful_set_marks_its_cluster(registry: kopf.OperatorRegistry, diary: Diary) -> None:
    meta = kopf.Meta({"metadata": {"namespace": "kafka", "labels": {"ottla.dev/cluster": "demo"}}})

    asyncio.run(registered(registry)["statefulsets"].fn(meta=meta))

    assert diary.marks == [("child", "kafka", "demo")]


def test_only_stateful_sets_of_ours_are_asked_for(registry: kopf.OperatorRegistry) -> None:
    labels = registered(registry)["statefulsets"].labels

    assert labels["app.kubernetes.io/managed-by"] == "ottla-operator"
    assert "ottla.dev/cluster" in labels


def test_mark_does_not_change_the_event(diary: Diary) -> None:
    event = cast(kopf.RawEvent, {"type": "ADDED", "object": {"metadata": {"name": "x"}}})

    mark(diary, "Topic", event)

    assert event["object"] == {"metadata": {"name": "x"}}
