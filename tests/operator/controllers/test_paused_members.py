"""Paused Topics and Users: the status stays current, nothing is changed, and they may be deleted at any time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import TOPIC_FINALIZER
from ottla_operator.model.user import USER_FINALIZER

Document = dict[str, Any]
Builder = Callable[..., Document]
TOPIC, ALICE = ObjectKey("Topic", "kafka", "flights"), ObjectKey("User", "kafka", "alice")
GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z"}


def test_new_paused_user_is_not_created(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest(paused=True))

    assert asyncio.run(controller.reconcile(ALICE)) is True
    assert (brokers.changes, ObjectKey("Secret", "kafka", "alice") in api.stored) == ([], False)
    found = api.reasons(ALICE)
    assert (found["Ready"], found["Paused"]) == (("False", "Paused"), ("True", "SpecPaused"))
    assert not found.keys() & {"Stalled", "Reconciling"}
    assert "next: " in api.message(ALICE)
    assert "give user alice" in api.message(ALICE)


def test_user_that_is_as_specified_is_ready_and_paused(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    api.put(user_manifest())
    asyncio.run(controller.reconcile(ALICE))
    api.stored[ALICE]["spec"]["paused"] = True
    asyncio.run(controller.reconcile(ALICE))

    found = api.reasons(ALICE)
    assert (found["Ready"][0], found["Paused"][0]) == ("True", "True")


def test_topic_continues_when_it_is_resumed(
    controller: ControllerManager, api: Any, brokers: Any, topic_manifest: Builder, with_cluster: Document
) -> None:
    api.put(topic_manifest(paused=True))
    asyncio.run(controller.reconcile(TOPIC))
    assert (api.reasons(TOPIC)["Paused"][0], brokers.topics) == ("True", {})

    del api.stored[TOPIC]["spec"]["paused"]
    asyncio.run(controller.reconcile(TOPIC))
    assert (api.reasons(TOPIC)["Paused"][0], api.reasons(TOPIC)["Ready"][0]) == ("False", "True")


@pytest.mark.parametrize("kind", ["Topic", "User"])
def test_deletion_of_a_paused_object_changes_nothing_and_completes(
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    topic_manifest: Builder,
    user_manifest: Builder,
    with_cluster: Document,
    kind: str,
) -> None:
    manifest = topic_manifest(deletionPolicy="Delete") if kind == "Topic" else user_manifest()
    key, finalizer = (TOPIC, TOPIC_FINALIZER) if kind == "Topic" else (ALICE, USER_FINALIZER)
    api.put(manifest)
    asyncio.run(controller.reconcile(key))
    brokers.changes.clear()
    api.stored[key]["spec"]["paused"] = True
    api.stored[key]["metadata"] |= GOING
    assert api.stored[key]["metadata"]["finalizers"] == [finalizer]

    assert asyncio.run(controller.reconcile(key)) is True
    assert (api.stored[key]["metadata"]["finalizers"], brokers.changes) == ([], [])
