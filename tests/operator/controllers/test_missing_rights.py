"""RBAC that is taken away rule by rule: the status has the missing right, and the operator recovers by itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fake_api import FakeApi
from virtual_time import run
from working_controller import at_work, loop_now

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
Builder = Callable[..., Document]
CLUSTER = ObjectKey("Cluster", "kafka", "demo")
RULES = [
    ("get", "StatefulSet"),
    ("get", "ConfigMap"),
    ("get", "ServiceAccount"),
    ("list", "Service"),
    ("list", "Pod"),
    ("list", "PersistentVolumeClaim"),
    ("apply", "ServiceAccount"),
    ("apply", "Service"),
    ("apply", "ConfigMap"),
    ("apply", "StatefulSet"),
]


class LimitedApi(FakeApi):
    """An API server that rejects one verb on one kind."""

    def __init__(self) -> None:
        super().__init__()
        self.denied: tuple[str, str] | None = None

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        self._authorize("get", kind)
        return await super().get(kind, namespace, name)

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        self._authorize("list", kind)
        return await super().objects(kind, namespace, labels)

    async def apply(self, document: Document) -> Document:
        self._authorize("apply", document["kind"])
        return await super().apply(document)

    def _authorize(self, verb: str, kind: str) -> None:
        if self.denied == (verb, kind):
            raise ApiError(403, "Forbidden", f'User "ottla" cannot {verb} resource "{kind}"')


@pytest.fixture
def api() -> LimitedApi:
    return LimitedApi()


@pytest.fixture
def controller(api: LimitedApi, brokers: Any) -> ControllerManager:
    return ControllerManager(
        api, lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"), brokers.connect, now=loop_now
    )


@pytest.mark.parametrize("rule", RULES, ids="-".join)
def test_missing_right_is_in_the_status_until_it_is_granted(
    controller: ControllerManager, api: LimitedApi, cluster_manifest: Builder, rule: tuple[str, str]
) -> None:
    async def scenario() -> list[tuple[tuple[str, str], str]]:
        api.denied = rule
        document = api.put(cluster_manifest())
        seen = []
        async with at_work(controller):
            controller.seen(document)
            await asyncio.sleep(300)
            seen.append((api.reasons(CLUSTER)["Ready"], api.message(CLUSTER)))
            api.denied = None
            await asyncio.sleep(5)
            seen.append((api.reasons(CLUSTER)["Ready"], api.message(CLUSTER)))
        return seen

    (before, message), (after, _) = run(scenario)

    assert before == ("False", "Forbidden")
    assert f'cannot {rule[0]} resource "{rule[1]}"' in message
    assert after == ("False", "PodMissing"), "all objects are there, and the double has no StatefulSet controller"
