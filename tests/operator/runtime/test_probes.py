"""The operator's HTTP: liveness, readiness of leaders and standbys, and metrics."""

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web

from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.metrics import OperatorMetrics
from ottla_operator.runtime.probes import Probes
from ottla_operator.runtime.watch_health import WatchHealth
from ottla_operator.runtime.work_queue import WorkQueue

Document = dict[str, Any]


class StuckQueue(WorkQueue):
    """A queue whose oldest key has the age of the test, and that has been stalled for as long."""

    age_s = 0.0

    def oldest_age_s(self) -> float:
        return self.age_s

    def standstill_s(self) -> float:
        return self.age_s


def open_watches(age_s: float = 0) -> WatchHealth:
    now_s = time.monotonic() - age_s
    health = WatchHealth([("topics", ""), ("users", "")], now_s)
    for resource in ("topics", "users"):
        health.observe_request(ApiCall("watch", resource, "", 200, 0.1, ""), now_s)
    return health


def ask(
    path: str,
    *,
    age_s: float = 0,
    watches: WatchHealth | None = None,
    leads: bool = True,
    is_listed: bool = True,
    leadership: Any = None,
    metrics: OperatorMetrics | None = None,
) -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        queue = StuckQueue(lambda key: key)
        queue.age_s = age_s
        queue.add(ObjectKey("Topic", "a", "b"))
        probes = Probes(
            queue,
            watches or open_watches(),
            metrics or OperatorMetrics(),
            leadership=cast(Any, leadership),
            stall_s=120,
            watch_stall_s=300,
            is_listed=lambda: is_listed,
        )
        probes.leads = leads
        runner = web.AppRunner(probes.application())
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def page(path: str, **state: Any) -> tuple[int, Document]:
    status, text = ask(path, **state)
    return status, json.loads(text)


@pytest.mark.parametrize(("age_s", "status"), [(120, 200), (120.5, 503)], ids=["at-the-limit", "past-the-limit"])
def test_operator_with_a_stalled_queue_is_not_alive(age_s: float, status: int) -> None:
    assert ask("/healthz", age_s=age_s)[0] == status


@pytest.mark.parametrize(("age_s", "status"), [(290, 200), (301, 503)], ids=["inside-the-limit", "past-the-limit"])
def test_operator_whose_watch_gives_no_sign_of_life_is_not_alive(age_s: float, status: int) -> None:
    response = page("/healthz", watches=open_watches(age_s))

    assert response[0] == status
    assert round(response[1]["watchSeconds"]["topics"]) == age_s
    assert ("watches have given no sign of life: topics" in response[1].get("error", "")) is (status == 503)


def test_operator_whose_requests_are_rejected_is_alive_and_not_ready() -> None:
    watches = open_watches()
    watches.observe_request(ApiCall("watch", "topics", "", 503, 0.1, "503 Unavailable"), time.monotonic())

    assert ask("/healthz", watches=watches)[0] == 200
    status, body = page("/readyz", watches=watches)
    assert (status, body["error"]) == (503, "not everything is watched: topics: 503 Unavailable")


@pytest.mark.parametrize(("is_listed", "status"), [(True, 200), (False, 503)])
def test_leader_is_ready_after_the_first_listing(is_listed: bool, status: int) -> None:
    response = page("/readyz", is_listed=is_listed)

    assert (response[0], response[1]["role"], response[1]["ready"]) == (status, "leader", status == 200)


def test_standby_is_alive_and_ready_and_says_who_leads() -> None:
    leadership = SimpleNamespace(holder="pod-1_a", problem=None)

    assert page("/readyz", leads=False, leadership=leadership) == (
        200,
        {"role": "standby", "leader": "pod-1_a", "ready": True},
    )
    assert ask("/healthz", leads=False, leadership=leadership, age_s=1e6, watches=open_watches(1e6))[0] == 200


def test_standby_that_could_not_take_over_is_alive_and_not_ready() -> None:
    leadership = SimpleNamespace(holder="", problem="lease a/b: 403 Forbidden: no")

    assert ask("/healthz", leads=False, leadership=leadership)[0] == 200
    assert page("/readyz", leads=False, leadership=leadership)[1]["error"] == "lease a/b: 403 Forbidden: no"


def test_metrics_have_the_queue_the_watches_and_the_leader() -> None:
    status, text = ask("/metrics", age_s=7)

    assert status == 200
    assert "ottla_operator_queue_length 1.0" in text
    assert "ottla_operator_queue_oldest_seconds 7.0" in text
    assert "ottla_operator_leader 1.0" in text
    assert "ottla_operator_watches_open 1.0" in text
    assert 'ottla_operator_watch_age_seconds{resource="topics"} ' in text


def test_metrics_of_a_standby_have_no_watches() -> None:
    text = ask("/metrics", leads=False)[1]

    assert "ottla_operator_leader 0.0" in text
    assert "ottla_operator_watch_age_seconds{" not in text
