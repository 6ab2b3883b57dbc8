"""Workers and listings while an operator runs: order, time-outs, and retries."""

import asyncio
from typing import Any, cast

import pytest
from virtual_time import run as run_in_no_time

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.user import USER_FINALIZER
from ottla_operator.runtime import workers
from ottla_operator.runtime.work_queue import WorkQueue

YOUNGER, OLDER = ObjectKey("User", "kafka", "alice"), ObjectKey("User", "kafka", "older")


@pytest.mark.parametrize(
    "failure",
    [OSError("no answer"), TimeoutError(), ApiError(503, "Unavailable", "busy"), ApiError(404, "NotFound", "no CRD")],
    ids=["network", "time", "api", "no-definition"],
)
def test_failed_listing_is_retried_soon(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    failures, waits = [failure, failure], []

    class Lists:
        async def resync(self) -> None:
            if failures:
                raise failures.pop()

    class Done(Exception):
        pass

    async def pause(delay_s: float, unless: asyncio.Event) -> None:
        waits.append(delay_s)
        if len(waits) == 3:
            raise Done

    monkeypatch.setattr(workers, "_pause", pause)
    events = workers.ListingState()
    with pytest.raises(Done):
        asyncio.run(workers.resync(cast(Any, Lists()), events, every_s=300))

    assert events.listed.is_set()
    assert events.is_complete
    assert [wait_s < 10 for wait_s in waits] == [True, True, False]


def test_younger_user_that_a_watch_shows_first_waits_for_the_first_listing(
    controller: ControllerManager, api: Any, brokers: Any, user_manifest: Any, with_cluster: Any
) -> None:
    younger = api.put(user_manifest(), creationTimestamp="2026-01-01T00:00:01Z")
    api.put(user_manifest("older", userName="alice"))

    async def run() -> bool:
        events = workers.ListingState()
        controller.seen(younger)
        parts = [asyncio.ensure_future(workers.work(controller, events.listed))]
        await asyncio.sleep(60)
        is_untouched = not api.writes
        parts.append(asyncio.ensure_future(workers.resync(controller, events, every_s=300)))
        await asyncio.sleep(60)
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        return is_untouched

    assert run_in_no_time(run)
    reasons = {key: api.reasons(key)["Ready"][1] for key in (YOUNGER, OLDER)}
    assert reasons == {YOUNGER: "UserClaimedElsewhere", OLDER: "AsSpecified"}


def test_object_without_a_cluster_is_released_if_the_crd_of_clusters_is_missing(
    controller: ControllerManager, api: Any, user_manifest: Any
) -> None:
    user = user_manifest()
    user["status"] = {"principal": "User:alice"}
    going = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [USER_FINALIZER]}
    events = workers.ListingState()

    async def run() -> None:
        parts = [
            asyncio.ensure_future(workers.resync(controller, events, every_s=300)),
            asyncio.ensure_future(workers.work(controller, events.listed)),
        ]
        await asyncio.sleep(60)
        # There is no open watch either.
        api.put(user, **going)
        await asyncio.sleep(60)
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)

    api.undefined = {"Cluster"}
    run_in_no_time(run)

    assert api.stored[YOUNGER]["metadata"]["finalizers"] == []
    assert not events.is_complete, "it is not ready"


def test_hanging_reconciliation_is_cancelled(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    queue = WorkQueue(lambda it: it)
    begun = []

    class Hangs:
        def __init__(self) -> None:
            self.queue = queue

        async def reconcile_batch(self, keys: list[ObjectKey]) -> set[ObjectKey]:
            begun.extend(keys)
            await asyncio.Event().wait()
            return set(keys)

    async def scenario() -> None:
        listed = asyncio.Event()
        listed.set()
        queue.add(OLDER)
        working = asyncio.ensure_future(workers.work(cast(Any, Hangs()), listed))
        await asyncio.sleep(700)
        working.cancel()

    run_in_no_time(scenario)
    assert len(begun) == 3
    assert "a reconciliation took more than 300 s" in caplog.records[0].message


def test_gap_is_listed_over_at_once() -> None:
    async def scenario() -> float:
        loop, gap = asyncio.get_running_loop(), asyncio.Event()
        began_s = loop.time()
        loop.call_later(3, gap.set)
        await workers._pause(300, gap)
        return loop.time() - began_s

    assert run_in_no_time(scenario) == 3
