"""`ApiFaults`: how the API server of a simulation fails, and what watches of it miss, from the run's one seed.

What is raised is what `adapters.kubernetes.api` raises: `ApiError` for a refusal, OSError caused by an
`aiohttp.ClientError` for a connection that breaks, and TimeoutError when no answer comes in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any, NoReturn, TypeVar

import aiohttp

from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla.simulator.world.random_source import SeededRandom
from ottla_operator.adapters.kubernetes.api import REQUEST_TIMEOUT_S
from ottla_operator.errors import ApiError, HostError

LOOKS_STRUCK_EVERY, CHANGES_STRUCK_EVERY = 6, 2
"""One call of so many fails in some way, on average; those that change something are few."""
TIMEOUTS_EVERY = 6
"""They are rarer than other faults: while one is waited for, nothing else is done, and nothing else fails."""
SLOW_MS_MAX, LATE_MS_MAX = 3_000, 5_000
RETRY_AFTER_S_MAX = 3
PAUSE_MS, LAST_MS_MAX, AWAY_MS_MAX = 6_000, 8_000, 20_000
_SERVER = "the API server's machines"

ResultT = TypeVar("ResultT")


class ApiFault(Enum):
    """What may happen; `CHANGES` only to calls that change something, `SPELLS` to all of them for a while."""

    CONFLICT = "409 Conflict"
    BUSY = "429 Too Many Requests"
    ERROR = "500 Internal Server Error"
    UNAVAILABLE = "503 Service Unavailable"
    SLOW = "slow"
    """It arrives late, and so does the answer."""
    TIMEOUT = "no answer"
    """It never arrives."""
    LOST = "answer lost"
    """It is done, and whoever asked hears of a failure."""
    LATE = "done late"
    """Whoever asked hears of a failure, and it is done after that."""
    AWAY = "away"
    """No call arrives, and watches are closed."""
    WATCHES_HELD = "watches held"
    """Events are told later, in order."""
    WATCHES_BROKEN = "watches broken"
    """Events are never told; a list follows."""


CHANGES = frozenset({ApiFault.CONFLICT, ApiFault.LATE})
SPELLS = frozenset({ApiFault.AWAY, ApiFault.WATCHES_HELD, ApiFault.WATCHES_BROKEN})
ALL = frozenset(ApiFault)

_REFUSALS = {
    ApiFault.CONFLICT: (409, "Conflict"),
    ApiFault.BUSY: (429, "TooManyRequests"),
    ApiFault.ERROR: (500, "InternalError"),
    ApiFault.UNAVAILABLE: (503, "ServiceUnavailable"),
}


class ApiFaults:
    """See the module; ``kinds`` strike from `start` to `stop`. ``on_watches_mended`` is called when a spell ends."""

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
        # An order of its own: that of a set follows from nothing.
        self._kinds = [it for it in ApiFault if it in kinds]
        self._note = note
        self._on_watches_mended = on_watches_mended
        self._is_over = True
        self._spell: ApiFault | None = None
        self._nobody: SimulatedEventLoop | None = None
        self.counts: dict[str, int] = {}

    @property
    def holds_events(self) -> bool:
        return self._spell is ApiFault.WATCHES_HELD

    @property
    def loses_events(self) -> bool:
        return self._spell in (ApiFault.AWAY, ApiFault.WATCHES_BROKEN)

    @property
    def strikes(self) -> bool:
        """Tell whether there is anything that may strike."""
        return bool(self._kinds)

    def start(self) -> None:
        if not self.strikes:
            return
        self._is_over = False
        self._nobody = SimulatedEventLoop(self._cluster, _SERVER)
        self._after(1 + self._random.randrange(PAUSE_MS), self._begin_spell)

    def stop(self) -> None:
        self._is_over = True
        self._end_spell()

    def close(self) -> None:
        """Give up what is still to be done."""
        self.stop()
        if self._nobody is not None:
            self._nobody.kill()
            self._nobody = None

    async def carry(self, method: str, what: str, effect: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Take one request to the server, where ``effect`` is what it does, and its answer back.

        Raises:
            ApiError: it is refused.
            OSError: the connection breaks, whether it is done or not.
            TimeoutError: there is no answer in time, whether it is done or not.
        """
        fault = self._draw(method, what)
        if fault is ApiFault.SLOW:
            await self._wait(SLOW_MS_MAX)
            answer = await effect()
            await self._wait(SLOW_MS_MAX)
            return answer
        if fault is None:
            return await effect()
        if fault in _REFUSALS:
            self._refuse(fault)
        if fault is ApiFault.AWAY:
            self._break(method, what, aiohttp.ClientConnectionError("nobody listens there"))
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
        """Return what strikes this call."""
        if self._spell is ApiFault.AWAY:
            return ApiFault.AWAY
        kinds = [it for it in self._kinds if it not in SPELLS and (method != "GET" or it not in CHANGES)]
        kinds = [it for it in kinds for _ in range(1 if it is ApiFault.TIMEOUT else TIMEOUTS_EVERY)]
        if (
            self._is_over
            or not kinds
            or self._random.randrange(LOOKS_STRUCK_EVERY if method == "GET" else CHANGES_STRUCK_EVERY)
        ):
            return None
        fault = kinds[self._random.randrange(len(kinds))]
        self._tell(fault, f"{method} {what}")
        return fault

    def _refuse(self, fault: ApiFault) -> NoReturn:
        status, reason = _REFUSALS[fault]
        after_s = float(1 + self._random.randrange(RETRY_AFTER_S_MAX)) if fault is ApiFault.BUSY else None
        raise ApiError(status, reason, "this is simulated", retry_after_s=after_s)

    def _break(self, method: str, what: str, why: aiohttp.ClientError) -> NoReturn:
        raise OSError(f"the API server did not answer {method} {what}: {why}") from why

    async def _run_out_of_time(self, method: str, what: str) -> NoReturn:
        await asyncio.sleep(REQUEST_TIMEOUT_S)
        raise TimeoutError(f"the API server did not answer {method} {what} in time")

    async def _wait(self, delay_ms_max: int) -> None:
        await asyncio.sleep(self._random.randrange(delay_ms_max) / 1_000)

    def _do_unheard(self, what: str, effect: Callable[[], Awaitable[object]], delay_ms: int) -> None:
        """Have the request done by the server, whatever becomes of who asked."""

        async def do() -> None:
            await asyncio.sleep(delay_ms / 1_000)
            try:
                await effect()
            except (ApiError, HostError) as error:
                self._note(f"{what}, of which nobody hears: {error}")

        assert self._nobody is not None, "nothing strikes before `start`"
        self._nobody.create_task(do())

    def _begin_spell(self) -> None:
        spells = [it for it in self._kinds if it in SPELLS]
        if self._is_over or not spells:
            return
        spell = self._spell = spells[self._random.randrange(len(spells))]
        last_ms = 1 + self._random.randrange(AWAY_MS_MAX if spell is ApiFault.AWAY else LAST_MS_MAX)
        self._tell(spell, f"for {last_ms} ms")
        self._after(last_ms, lambda: self._next_spell(spell))

    def _next_spell(self, spell: ApiFault) -> None:
        if self._spell is spell:
            self._end_spell()
            self._after(1 + self._random.randrange(PAUSE_MS), self._begin_spell)

    def _end_spell(self) -> None:
        if self._spell is not None:
            self._note(f"API: {self._spell.value}: it is over")
            self._spell = None
            self._on_watches_mended()

    def _tell(self, fault: ApiFault, what: str) -> None:
        self.counts[fault.value] = self.counts.get(fault.value, 0) + 1
        self._note(f"API: {fault.value}: {what}")

    def _after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._cluster.events.after(delay_ms, action)
