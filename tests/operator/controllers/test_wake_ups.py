"""What waits for a time, or for a change of another object, is reconciled then and not at the next resync."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from virtual_time import run

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.planning.steps.topic import AdoptTopic

Document = dict[str, Any]
Builder = Callable[..., Document]
OVERLAP_S = 25


def now() -> str:
    """Return the time of the loop, which jumps from timer to timer."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def controller(api: Any, brokers: Any) -> ControllerManager:
    return ControllerManager(
        api, lambda namespace: KubernetesHost(api, namespace, "ottla/broker:1"), brokers.connect, now=now
    )


@asynccontextmanager
async def at_work(controller: ControllerManager) -> AsyncIterator[None]:
    """Let a worker reconcile keys within the block."""
    worker = asyncio.ensure_future(controller.queue.work(controller.reconcile_batch))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


def test_previous_password_goes_when_its_overlap_ends(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Builder, with_cluster: Document
) -> None:
    def rotated(revision: str) -> Document:
        rotation = {"revision": revision, "overlapSeconds": OVERLAP_S}
        return user_manifest(authentication={"rotation": rotation})  # type: ignore[no-any-return]

    async def scenario() -> list[set[int]]:
        seen = []
        async with at_work(controller):
            for generation, revision in enumerate("12", start=1):
                controller.seen(api.put(rotated(revision), generation=generation))
                await asyncio.sleep(1)
            for wait_s in (0, OVERLAP_S - 3, 3):
                await asyncio.sleep(wait_s)
                seen.append(set(brokers.scram["alice"]))
        return seen

    assert run(scenario) == [{1, 2}, {1, 2}, {1}]


@pytest.mark.parametrize(
    "readiness",
    [Rejected("ReplicationFactorTooLarge", "shrink it"), Waiting("Draining", "wait")],
    ids=["rejected", "waits"],
)
def test_cluster_that_may_wait_for_a_topic_is_reconciled_when_the_topic_has_changed(
    controller: ControllerManager,
    api: Any,
    topic_manifest: Builder,
    with_cluster: Document,
    monkeypatch: pytest.MonkeyPatch,
    readiness: Rejected | Waiting,
) -> None:
    results: dict[str, ReconcileResult] = {"Cluster": ReconcileResult(readiness, {})}
    reconciled: list[tuple[str, float]] = []

    class Reconciler:
        async def reconcile(self, cluster: ObjectKey, documents: dict[ObjectKey, Document]) -> Any:
            reconciled.extend((key.kind, asyncio.get_running_loop().time()) for key in documents)
            return {key: results[key.kind] for key in documents}

    monkeypatch.setattr(controller, "_reconcilers", {"Cluster": Reconciler(), "Topic": Reconciler()})
    topic = topic_manifest()
    step = AdoptTopic("flights", 6, 3, ())
    results["Topic"] = ReconcileResult(Reached("AsSpecified", ""), {}, (step,))

    async def scenario() -> float:
        async with at_work(controller):
            controller.seen(with_cluster)
            await asyncio.sleep(100)
            since_s = asyncio.get_running_loop().time()
            controller.seen(api.put(topic))
            await asyncio.sleep(1)
        return since_s

    since_s = run(scenario)

    assert [kind for kind, at_s in reconciled if at_s >= since_s][:2] == ["Topic", "Cluster"]
