"""The operator as a whole: leadership, order of its parts, and errors that end it."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from virtual_time import run as run_in_no_time

from ottla_operator import main
from ottla_operator.errors import LeadershipLostError
from ottla_operator.runtime.watch_health import WatchHealth


@pytest.mark.parametrize("raises", [False, True], ids=["ends", "fails"])
def test_end_of_one_part_ends_all(raises: bool) -> None:
    ended = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    async def short() -> None:
        if raises:
            raise ValueError("broken")

    async def run() -> None:
        await main._until_one_ends([for_ever(), short()], asyncio.Event())

    if raises:
        with pytest.raises(ValueError, match="broken"):
            asyncio.run(run())
    else:
        asyncio.run(run())
    assert ended == ["other"]


def test_stop_ends_every_part() -> None:
    ended = []

    async def for_ever(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_soon(stop.set)
        await main._until_one_ends([for_ever(1), for_ever(2)], stop)

    asyncio.run(run())
    assert sorted(ended) == [1, 2]


def test_bad_environment_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTTLA_OPERATOR_WORKERS", "none")
    caplog.set_level(logging.CRITICAL)

    assert main.main() == 1
    assert capsys.readouterr().err.startswith("ottla-operator: OTTLA_OPERATOR_WORKERS is 'none'")


class Candidate:
    """Records the calls to a leadership."""

    def __init__(self, diary: list[str]) -> None:
        self.diary = diary
        self.leads = asyncio.Event()
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        await self.leads.wait()
        self.diary.append("leads")

    async def keep(self) -> None:
        await self.lost.wait()
        raise LeadershipLostError("me does not lead any more: other leads")

    async def release(self) -> None:
        self.diary.append("released")


def lead(scenario: Any) -> list[str]:
    diary: list[str] = []

    async def work() -> None:
        diary.append("works")
        try:
            await asyncio.Event().wait()
        finally:
            diary.append("has ended")

    async def run() -> None:
        candidate, probes = Candidate(diary), SimpleNamespace(leads=False)
        health = WatchHealth([], 0)
        leading = asyncio.ensure_future(main._lead(cast(Any, candidate), cast(Any, probes), health, [work()]))
        await scenario(candidate, probes, leading)

    run_in_no_time(run)
    return diary


def test_standby_does_no_work() -> None:
    async def scenario(candidate: Candidate, probes: Any, leading: asyncio.Future[None]) -> None:
        await asyncio.sleep(60)
        assert not probes.leads
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    assert lead(scenario) == ["released"]


def test_lease_is_released_after_the_last_worker_has_ended() -> None:
    async def scenario(candidate: Candidate, probes: Any, leading: asyncio.Future[None]) -> None:
        candidate.leads.set()
        await asyncio.sleep(60)
        assert probes.leads
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    assert lead(scenario) == ["leads", "works", "has ended", "released"]


def test_lost_leadership_ends_the_workers_and_the_process() -> None:
    async def scenario(candidate: Candidate, probes: Any, leading: asyncio.Future[None]) -> None:
        candidate.leads.set()
        candidate.lost.set()
        with pytest.raises(LeadershipLostError, match="other leads"):
            await leading

    assert lead(scenario)[:2] == ["leads", "works"]


def test_lost_leadership_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(*_: Any) -> None:
        raise LeadershipLostError("me does not lead any more: other leads")

    monkeypatch.setattr(main, "run", run)
    monkeypatch.setattr(main, "_set_up_logging", lambda settings: None)

    assert main.main() == 1
    assert [it.message for it in caplog.records] == [
        "me does not lead any more: other leads; exiting, so that no step is executed twice"
    ]


def test_standby_sends_no_requests_to_brokers(brokers: Any) -> None:
    leads = [True, False]
    connect = main.leaders_only(brokers.connect, lambda: leads.pop(0))

    async def run() -> None:
        async with connect("demo:9092", {}):
            pass
        with pytest.raises(LeadershipLostError, match="no request is sent to demo:9092"):
            async with connect("demo:9092", {}):
                pass

    asyncio.run(run())
    assert brokers.addresses == ["demo:9092"]
