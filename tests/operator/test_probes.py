"""The operator's HTTP: alive while keys are taken, ready once everything was listed, metrics in Prometheus' format."""

import asyncio

import pytest
from aiohttp import ClientSession, web

from ottla_operator.metrics import OperatorMetrics
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.probes import Probes
from ottla_operator.reconcile.queue import DirtyKeys


class StuckQueue(DirtyKeys):
    """A queue whose oldest key is as old as the test says."""

    age_s = 0.0

    def oldest_age_s(self) -> float:
        return self.age_s


def ask(path: str, *, age_s: float = 0, is_ready: bool = False) -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        queue = StuckQueue(lambda key: key)
        queue.age_s = age_s
        queue.add(ObjectKey("Topic", "a", "b"))
        probes = Probes(queue, OperatorMetrics(), stall_s=120)
        probes.is_ready = is_ready
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


@pytest.mark.parametrize(("age_s", "status"), [(120, 200), (120.5, 503)], ids=["at-the-limit", "past-the-limit"])
def test_operator_whose_queue_stands_still_is_not_alive(age_s: float, status: int) -> None:
    assert ask("/healthz", age_s=age_s)[0] == status


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
def test_operator_is_ready_after_the_first_listing(is_ready: bool, status: int) -> None:
    assert ask("/readyz", is_ready=is_ready)[0] == status


def test_metrics_tell_of_the_queue() -> None:
    status, text = ask("/metrics", age_s=7)

    assert status == 200
    assert "ottla_operator_queue_length 1.0" in text
    assert "ottla_operator_queue_oldest_seconds 7.0" in text
