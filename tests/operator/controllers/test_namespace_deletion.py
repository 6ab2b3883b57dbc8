"""A terminating namespace, its objects in any order: creations are rejected, and no finalizer blocks it for ever."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from http_api import HttpApi, credentials

from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]

GONE = "2026-01-01T00:00:00Z"
PLURALS = {"Cluster": "clusters", "Topic": "topics", "User": "users"}
KEYS = [
    ObjectKey("Cluster", "kafka", "demo"),
    ObjectKey("Topic", "kafka", "flights"),
    ObjectKey("User", "kafka", "alice"),
]


class Going:
    """A namespace with a Cluster, a Topic that deletes its topic, and a User, and a garbage-collecting server."""

    def __init__(self, brokers: Any) -> None:
        self.server = HttpApi()
        self.brokers = brokers

    def delete(self, key: ObjectKey) -> None:
        """Mark the object as deleted, or remove it if it has no finalizer."""
        where = PLURALS[key.kind], key.namespace, key.name
        document = self.server.stored[where]
        if document["metadata"].get("finalizers"):
            document["metadata"]["deletionTimestamp"] = GONE
            self.server.put(where[0], document)
        else:
            self.server.remove(*where)

    def collect(self, controller: ControllerManager) -> None:
        """Remove deleted objects without finalizers, and notify the controller."""
        for (plural, namespace, name), document in list(self.server.stored.items()):
            metadata = document["metadata"]
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                self.server.remove(plural, namespace, name)
                controller.gone({**document})

    @property
    def left(self) -> set[str]:
        return {f"{plural}/{name}" for plural, _, name in self.server.stored if plural in PLURALS.values()}


@pytest.fixture
def going(brokers: Any, cluster_manifest: Any, topic_manifest: Any, user_manifest: Any) -> Going:
    made = Going(brokers)
    for document in (cluster_manifest(), topic_manifest(deletionPolicy="Delete"), user_manifest()):
        document["metadata"]["namespace"] = "kafka"
        made.server.put(PLURALS[document["kind"]], document)
    return made


@asynccontextmanager
async def controlled(going: Going) -> AsyncIterator[ControllerManager]:
    """Yield a controller over the server, by HTTP."""
    async with going.server.serving() as address, KubernetesApi(credentials(address)) as api:
        yield ControllerManager(
            api,
            lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"),
            going.brokers.connect,
            now=lambda: GONE,
        )


async def settle(controller: ControllerManager, going: Going, rounds: int = 4) -> None:
    for _ in range(rounds):
        for key in KEYS:
            await controller.reconcile(key)
        going.collect(controller)


def run(going: Going, order: tuple[ObjectKey, ...], *, brokers_go_first: bool) -> list[str]:
    async def scenario() -> list[str]:
        async with controlled(going) as controller:
            await controller.resync()
            await settle(controller, going)
            assert all(
                going.server.stored[PLURALS[key.kind], *key[1:]]["metadata"].get("finalizers") for key in KEYS[1:]
            )
            going.server.terminating.add("kafka")
            going.brokers.is_reachable = not brokers_go_first
            for key in order:
                going.delete(key)
                await settle(controller, going, rounds=1)
            await settle(controller, going)
        return sorted(going.left)

    return asyncio.run(scenario())


@pytest.mark.parametrize("brokers_go_first", [False, True], ids=["brokers-stay", "brokers-go-first"])
@pytest.mark.parametrize(
    "order", list(itertools.permutations(KEYS)), ids=lambda order: "-".join(key.kind for key in order)
)
def test_no_object_blocks_a_terminating_namespace(
    going: Going, order: tuple[ObjectKey, ...], brokers_go_first: bool
) -> None:
    assert run(going, order, brokers_go_first=brokers_go_first) == []


def test_rejected_creations_in_a_terminating_namespace_change_nothing(
    going: Going, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> Document:
        going.server.terminating.add("kafka")
        async with controlled(going) as controller:
            await controller.resync()
            assert await controller.reconcile(KEYS[0]) is False
            return going.server.stored["clusters", "kafka", "demo"]

    ready = next(it for it in asyncio.run(scenario())["status"]["conditions"] if it["type"] == "Ready")

    assert (ready["status"], ready["reason"]) == ("False", "NamespaceTerminating")
    assert not [it for it in caplog.records if it.levelname in ("WARNING", "ERROR")]
