"""`ApiFaults`: failures of a simulation's API server and of its watches, from the run's one seed.

The errors are those of `adapters.kubernetes.api`: `ApiError` for a rejection, OSError caused by an
`aiohttp.ClientError` for a connection that breaks, and TimeoutError without a response in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any, NoReturn, TypeVar

import aiohttp

from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla.simulator.world.random_source import SeededRandom
from ottla_operator.adapters.kubernetes.connection import REQUEST_TIMEOUT_S
from ottla_operator.errors import ApiError, HostError

LOOKS_STRUCK_EVERY, CHANGES_STRUCK_EVERY = 6, 2
"""One of so many calls fails in some way, on average; calls that change something are rare."""
TIMEOUTS_EVERY = 6
"""Rarer than other faults: while one call waits for it, nothing else is done, and nothing else fails."""
SLOW_MS_MAX, LATE_MS_MAX = 3_000, 5_000
RETRY_AFTER_S_MAX = 3
PAUSE_MS, LAST_MS_MAX, AWAY_MS_MAX = 6_000, 8_000, 20_000
_SERVER = "the API server's machines"

ResultT = TypeVar("ResultT")


class ApiFault(Enum):
    """Kinds of faults; `CHANGES` affect only calls that change something, `SPELLS` all of them for a while."""

    CONFLICT = "409 Conflict"
    BUSY = "429 Too Many Requests"
    ERROR = "500 Internal Server Error"
    UNAVAILABLE = "503 Service Unavailable"
    SLOW = "slow"
    """The request arrives late, and so does the response."""
    TIMEOUT = "no answer"
    """The request never arrives."""
    LOST = "answer lost"
    """The request is executed, and the caller gets an error."""
    LATE = "done late"
    """The caller gets an error, and the request is executed after that."""
    AWAY = "away"
    """No call arrives, and watches are closed."""
    WATCHES_HELD = "watches held"
    """Events are delivered later, in order."""
    WATCHES_BROKEN = "watches broken"
    """Events are never delivered; a list follows."""
    PODS_REJECTED = "pods rejected"
    """Admission rejects every new pod. No watch shows the end."""


CHANGES = frozenset({ApiFault.CONFLICT, ApiFault.LATE})
SPELLS = frozenset({ApiFault.AWAY, ApiFault.WATCHES_HELD, ApiFault.WATCHES_BROKEN})
ALL = frozenset(ApiFault) - {ApiFault.PODS_REJECTED}
"""Those of an API server that works badly."""
_LASTING = SPELLS | {ApiFault.PODS_REJECTED}

_ERRORS = {
    ApiFault.CONFLICT: (409, "Conflict"),
    ApiFault.BUSY: (429, "TooManyRequests"),
    ApiFault.ERROR: (500, "InternalError"),
    ApiFault.UNAVAILABLE: (503, "ServiceUnavailable"),
}


class ApiFaults:
    """Kinds of faults strike from `start` to `stop`. ``on_watches_mended`` is called when a spell ends."""

    def __init__(
        self,
        cluster: Cluster,
        random: SeededRandom,
        kinds: frozenset[ApiFault],
        *,
        note: Callable[[str], object],
        on_watches_mended: Callable[[], object] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._random = random
        # Sorted, because the order of a set is not reproducible.
        self._kinds = [it for it in ApiFault if it in kinds]
        self._note = note
        self._on_watches_mended = on_watches_mended
        self._is_over = True
        self._spell: ApiFault | None = None
        self._server_loop: SimulatedEventLoop | None = None
        self.counts: dict[str, int] = {}

    @property
    def holds_events(self) -> bool:
        return self._spell is ApiFault.WATCHES_HELD

    @property
    def loses_events(self) -> bool:
        return self._spell in (ApiFault.AWAY, ApiFault.WATCHES_BROKEN)

    @property
    def rejects_pods(self) -> bool:
        return self._spell is ApiFault.PODS_REJECTED

    @property
    def strikes(self) -> bool:
        """Tell whether any fault may strike."""
        return bool(self._kinds)

    def start(self) -> None:
        if not self.strikes:
            return
        self._is_over = False
        self._server_loop = SimulatedEventLoop(self._cluster, _SERVER)
        self._after(1 + self._random.randrange(PAUSE_MS), self._begin_spell)

    def stop(self) -> None:
        self._is_over = True
        self._end_spell()

    def close(self) -> None:
        """Drop everything that is still to be executed."""
        self.stop()
        if self._server_loop is not None:
            self._server_loop.kill()
            self._server_loop = None

    async def carry(self, method: str, what: str, effect: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Take one request to the server, where ``effect`` executes it, and its response back.

        Raises:
            ApiError: it is rejected.
            OSError: the connection breaks, whether it is executed or not.
            TimeoutError: there is no response in time, whether it is executed or not.
        """
        fault = self._draw(method, what)
        if fault is ApiFault.SLOW:
            await self._wait(SLOW_MS_MAX)
            result = await effect()
            await self._wait(SLOW_MS_MAX)
            return result
        if fault is None:
            return await effect()
        if fault in _ERRORS:
            self._reject(fault)
        if fault is ApiFault.AWAY:
            self._break(method, what, aiohttp.ClientConnectionError("connection refused by the simulation"))
        if fault is ApiFault.TIMEOUT:
            await self._run_out_of_time(method, what)
        if method != "GET":
            delay_ms = self._random.randrange(LATE_MS_MAX) if fault is ApiFault.LATE else 0
            self._do_unheard(what, effect, delay_ms)
        if self._random.randrange(TIMEOUTS_EVERY) == 0:
            await self._run_out_of_time(method, what)
        await self._wait(SLOW_MS_MAX)
        self._break(method, what, aiohttp.ServerDisconnectedError())

    def _draw(self, method: str, what: str) -> ApiFault | None:
        """Return the fault of this call."""
        if self._spell is ApiFault.AWAY:
            return ApiFault.AWAY
        kinds = [it for it in self._kinds if it not in _LASTING and (method != "GET" or it not in CHANGES)]
        kinds = [it for it in kinds for _ in range(1 if it is ApiFault.TIMEOUT else TIMEOUTS_EVERY)]
        if (
            self._is_over
            or not kinds
            or self._random.randrange(LOOKS_STRUCK_EVERY if method == "GET" else CHANGES_STRUCK_EVERY)
        ):
            return None
        fault = kinds[self._random.randrange(len(kinds))]
        self._report(fault, f"{method} {what}")
        return fault

    def _reject(self, fault: ApiFault) -> NoReturn:
        status, reason = _ERRORS[fault]
        after_s = float(1 + self._random.randrange(RETRY_AFTER_S_MAX)) if fault is ApiFault.BUSY else None
        raise ApiError(status, reason, "this is simulated", retry_after_s=after_s)

    def _break(self, method: str, what: str, why: aiohttp.ClientError) -> NoReturn:
        raise OSError(f"the API server did not respond to {method} {what}: {why}") from why

    async def _run_out_of_time(self, method: str, what: str) -> NoReturn:
        await asyncio.sleep(REQUEST_TIMEOUT_S)
        raise TimeoutError(f"the API server did not respond to {method} {what} in time")

    async def _wait(self, delay_ms_max: int) -> None:
        await asyncio.sleep(self._random.randrange(delay_ms_max) / 1_000)

    def _do_unheard(self, what: str, effect: Callable[[], Awaitable[object]], delay_ms: int) -> None:
        """Execute the request at the server, independent of its caller."""

        async def do() -> None:
            await asyncio.sleep(delay_ms / 1_000)
            try:
                await effect()
            except (ApiError, HostError) as error:
                self._note(f"{what}, unreported: {error}")

        assert self._server_loop is not None, "nothing strikes before `start`"
        self._server_loop.create_task(do())

    def _begin_spell(self) -> None:
        spells = [it for it in self._kinds if it in _LASTING]
        if self._is_over or not spells:
            return
        spell = self._spell = spells[self._random.randrange(len(spells))]
        last_ms = 1 + self._random.randrange(AWAY_MS_MAX if spell is ApiFault.AWAY else LAST_MS_MAX)
        self._report(spell, f"for {last_ms} ms")
        self._after(last_ms, lambda: self._next_spell(spell))

    def _next_spell(self, spell: ApiFault) -> None:
        if self._spell is spell:
            self._end_spell()
            self._after(1 + self._random.randrange(PAUSE_MS), self._begin_spell)

    def _end_spell(self) -> None:
        if self._spell is not None:
            self._note(f"API: {self._spell.value}: it is over")
            ended, self._spell = self._spell, None
            if ended in SPELLS:
                self._on_watches_mended()

    def _report(self, fault: ApiFault, what: str) -> None:
        self.counts[fault.value] = self.counts.get(fault.value, 0) + 1
        self._note(f"API: {fault.value}: {what}")

    def _after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._cluster.events.after(delay_ms, action)
