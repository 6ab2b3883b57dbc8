"""Candidates on one Lease, with late and lost responses, kills and skewed clocks: one writes, one leads soon."""

import asyncio
import contextlib
import copy
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest
from virtual_time import run

from ottla_operator.errors import ApiError, LeadershipLostError
from ottla_operator.runtime.election import LeaseTimings
from ottla_operator.runtime.leadership import Leadership

Document = dict[str, Any]


class Leases:
    """An API server with one Lease; ``trouble`` makes calls late, fail, or execute without a response."""

    def __init__(self, randomness: random.Random | None = None) -> None:
        self.stored: Document | None = None
        self.calls: list[str] = []
        self.fails: Exception | None = None
        self.hangs = False
        self._randomness = randomness
        self._version = 0

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        assert (kind, namespace, name) == ("Lease", "system", "ottla")
        return await self._call("get", lambda: self.stored)

    async def create(self, document: Document) -> Document:
        def work() -> Document:
            if self.stored is not None:
                raise ApiError(409, "AlreadyExists", "it is there")
            return self._store(document)

        return await self._call("create", work)

    async def replace(self, document: Document) -> Document:
        def work() -> Document:
            if self.stored is None:
                raise ApiError(404, "NotFound", "no Lease")
            if self.stored["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "another version")
            return self._store(document)

        return await self._call("replace", work)

    def _store(self, document: Document) -> Document:
        self._version += 1
        document = copy.deepcopy(document)
        document["metadata"]["resourceVersion"] = str(self._version)
        self.stored = document
        return document

    async def _call(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls.append(name)
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        if self._randomness is None:
            return copy.deepcopy(work())
        trouble = self._randomness.random()
        if trouble < 0.05:
            raise OSError("connection refused")
        if trouble < 0.08:
            raise ApiError(429, "TooManyRequests", "later")
        await asyncio.sleep(self._randomness.expovariate(5))
        if trouble < 0.15:
            # The request arrives, long after its sender gave up.
            asyncio.get_running_loop().call_later(self._randomness.uniform(5, 30), _unheard, work)
            await asyncio.Event().wait()
        result = copy.deepcopy(work())
        if trouble < 0.25:
            raise OSError("connection lost in the middle of the answer")
        await asyncio.sleep(self._randomness.expovariate(1) if trouble < 0.5 else 0)
        return result


def _unheard(work: Callable[[], Any]) -> None:
    with contextlib.suppress(ApiError):
        work()


def candidate(leases: Leases, identity: str, *, offset_s: float = 0.0, rate: float = 1.0) -> Leadership:
    loop = asyncio.get_running_loop()
    return Leadership(
        leases,
        namespace="system",
        name="ottla",
        identity=identity,
        now_s=lambda: offset_s + rate * loop.time(),
    )


def test_first_candidate_leads_and_the_second_stands_by_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        leases = Leases()
        first, second = candidate(leases, "a"), candidate(leases, "b")
        await first.acquire()
        keeping, waiting = asyncio.ensure_future(first.keep()), asyncio.ensure_future(second.acquire())
        await asyncio.sleep(120)
        assert (first.may_write(), second.may_write(), second.holder) == (True, False, "a")
        assert (first.problem, second.problem) == (None, None)
        assert not waiting.done()
        keeping.cancel()
        waiting.cancel()

    run(scenario)
    assert [it.message for it in caplog.records] == ["a leads, by lease system/ottla", "stands by as b: a leads"]


def test_lease_has_holder_and_acquire_time() -> None:
    async def scenario() -> Document:
        leases = Leases()
        first = candidate(leases, "a")
        await first.acquire()
        acquired = leases.stored
        keeping = asyncio.ensure_future(first.keep())
        await asyncio.sleep(5)
        keeping.cancel()
        assert leases.stored is not None
        assert acquired is not None
        assert leases.stored["spec"]["acquireTime"] == acquired["spec"]["acquireTime"]
        return leases.stored

    stored = run(scenario)

    assert (stored["apiVersion"], stored["kind"]) == ("coordination.k8s.io/v1", "Lease")
    spec = stored["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)


def test_released_lease_is_taken_at_the_next_observation() -> None:
    async def scenario() -> float:
        leases = Leases()
        first, second = candidate(leases, "a"), candidate(leases, "b")
        await first.acquire()
        waiting = asyncio.ensure_future(second.acquire())
        await asyncio.sleep(0)
        released_s = asyncio.get_running_loop().time()
        await first.release()
        assert not first.may_write()
        await waiting
        return asyncio.get_running_loop().time() - released_s

    assert run(scenario) <= 2


def test_release_by_a_standby_writes_nothing() -> None:
    async def scenario() -> None:
        leases = Leases()
        await candidate(leases, "a").acquire()
        before = list(leases.calls)
        await candidate(leases, "b").release()
        assert leases.calls == before

    run(scenario)


def test_failed_release_does_not_block_the_exit() -> None:
    async def scenario() -> None:
        leases = Leases()
        first = candidate(leases, "a")
        await first.acquire()
        leases.hangs = True
        await first.release()
        assert not first.may_write()

    run(scenario)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"fails": OSError("connection refused")}, id="unreachable"),
        pytest.param({"fails": ApiError(403, "Forbidden", "no right")}, id="no-right"),
        pytest.param({"fails": ApiError(503, "Unavailable", "busy")}, id="busy"),
        pytest.param({"hangs": True}, id="hangs"),
    ],
)
def test_leader_that_cannot_renew_ends_in_time_and_says_why(trouble: dict[str, Any]) -> None:
    async def scenario() -> tuple[float, str]:
        loop, leases = asyncio.get_running_loop(), Leases()
        first = candidate(leases, "a")
        await first.acquire()
        began_s = loop.time()
        for name, value in trouble.items():
            setattr(leases, name, value)
        with pytest.raises(LeadershipLostError) as lost:
            await first.keep()
        return loop.time() - began_s, str(lost.value)

    took_s, message = run(scenario)

    assert took_s == pytest.approx(10)
    assert message.startswith("a does not lead any more: lease system/ottla: ")


def test_leader_that_is_replaced_ends_and_names_its_successor() -> None:
    async def scenario() -> str:
        leases = Leases()
        first = candidate(leases, "a")
        await first.acquire()
        assert leases.stored is not None
        leases.stored["spec"]["holderIdentity"] = "b"
        leases.stored["metadata"]["resourceVersion"] = "99"
        with pytest.raises(LeadershipLostError) as lost:
            await first.keep()
        return str(lost.value)

    assert run(scenario) == "a does not lead any more: b leads"


def test_one_lost_response_does_not_cost_the_leadership() -> None:
    async def scenario() -> None:
        leases = Leases()
        first = candidate(leases, "a")
        await first.acquire()
        keeping = asyncio.ensure_future(first.keep())
        leases.hangs = True
        await asyncio.sleep(4)
        leases.hangs = False
        await asyncio.sleep(60)
        assert first.may_write()
        keeping.cancel()

    run(scenario)


def test_standby_that_cannot_read_the_lease_says_why() -> None:
    async def scenario() -> tuple[str | None, str | None]:
        leases = Leases()
        first = candidate(leases, "a")
        before = first.problem
        leases.fails = ApiError(403, "Forbidden", "may not get leases")
        waiting = asyncio.ensure_future(first.acquire())
        await asyncio.sleep(10)
        waiting.cancel()
        return before, first.problem

    assert run(scenario) == (
        "the Lease has not been read yet",
        "lease system/ottla: 403 Forbidden: may not get leases",
    )


def test_deleted_lease_is_made_again() -> None:
    async def scenario() -> None:
        leases = Leases()
        first = candidate(leases, "a")
        await first.acquire()
        keeping = asyncio.ensure_future(first.keep())
        leases.stored = None
        await asyncio.sleep(8)
        assert first.may_write()
        assert leases.stored is not None
        keeping.cancel()

    run(scenario)


class Fleet:
    """Operators that start, lead, write whenever they may, are killed, and start again, by one seed."""

    def __init__(self, seed: int) -> None:
        self.randomness = random.Random(seed)
        self.leases = Leases(self.randomness)
        self.alive: dict[str, Leadership] = {}
        self.writers: list[tuple[float, str]] = []
        self._begun = 0

    def one_writes(self) -> None:
        """Assert that at most one may write at this very moment."""
        now = [identity for identity, it in self.alive.items() if it.may_write()]
        assert len(now) <= 1, f"{now} may write at {asyncio.get_running_loop().time():.3f}"
        if now:
            self.writers.append((asyncio.get_running_loop().time(), now[0]))

    async def life(self) -> None:
        """One slot of the fleet: processes one after another."""
        while True:
            self._begun += 1
            identity = f"p{self._begun}"
            me = candidate(
                self.leases,
                identity,
                offset_s=self.randomness.uniform(-1e6, 1e6),
                rate=self.randomness.uniform(0.97, 1.03),
            )
            self.alive[identity] = me
            process = asyncio.ensure_future(self._process(me))
            done, _ = await asyncio.wait([process], timeout=self.randomness.expovariate(1 / 60))
            if not done:
                # A kill: nothing is released. A request in flight may still arrive.
                process.cancel()
            del self.alive[identity]
            await asyncio.sleep(self.randomness.expovariate(1 / 3))

    async def _process(self, me: Leadership) -> None:
        await me.acquire()
        keeping = asyncio.ensure_future(me.keep())
        try:
            await asyncio.wait([keeping], timeout=self.randomness.expovariate(1 / 90))
        finally:
            keeping.cancel()
        await me.release()


@pytest.mark.parametrize("seed", range(20))
def test_at_most_one_writes_whatever_happens(seed: int) -> None:
    async def scenario() -> Fleet:
        fleet, loop = Fleet(seed), asyncio.get_running_loop()
        lives = [asyncio.ensure_future(fleet.life()) for _ in range(2 + seed % 2)]
        until_s = loop.time() + 400
        while loop.time() < until_s:
            fleet.one_writes()
            await asyncio.sleep(0.05)
        for life in lives:
            assert not life.done()
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        return fleet

    fleet = run(scenario)

    assert len({identity for _, identity in fleet.writers}) > 2
    assert len(fleet.writers) > 0.3 * 400 / 0.05


def test_renew_deadline_beyond_the_lease_has_two_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would notice: a deadline past the lease has two leaders."""
    monkeypatch.setattr("ottla_operator.runtime.election.LeaseTimings.__post_init__", lambda self: None)
    monkeypatch.setattr(
        "ottla_operator.runtime.leadership.LeaseTimings",
        lambda: LeaseTimings(lease_s=5, renew_deadline_s=12, retry_s=2),
    )

    with pytest.raises(AssertionError, match="may write at"):
        _several_seeds()


def _several_seeds() -> None:
    for seed in range(20):
        test_at_most_one_writes_whatever_happens(seed)
