"""Tasks that run for as long as an operator leads: workers that reconcile dirty keys, and the periodic resync."""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.work_queue import WorkQueue

logger = logging.getLogger(__name__)

PASS_S_MAX = 300.0
"""Calls have limits of seconds; a pass that takes so long hangs, and would keep its cluster for ever."""
_RESYNC_JITTER = 0.1
_RETRY_S = 5.0
"""After a listing that failed."""


class Reconcilers(Protocol):
    """The calls of `controllers.manager.ControllerManager` that workers and the resync make."""

    @property
    def queue(self) -> WorkQueue: ...
    async def resync(self) -> None: ...
    async def reconcile_batch(self, keys: Sequence[ObjectKey]) -> set[ObjectKey]: ...


@dataclass(slots=True)
class ListingState:
    """Shared by the watches, the workers and the resync of one process."""

    listed: asyncio.Event = field(default_factory=asyncio.Event)
    """Every object is known, of the kinds that are defined."""
    is_complete: bool = False
    """Every kind is defined, and was listed."""
    gap: asyncio.Event = field(default_factory=asyncio.Event)
    """ListingState may have been missed: list again soon."""


async def work(controller: Reconcilers, listed: asyncio.Event) -> None:
    """Reconcile for ever, from when every object is known: before, an older one of the same claim may be unseen."""
    await listed.wait()

    async def reconcile(keys: Sequence[ObjectKey]) -> set[ObjectKey]:
        try:
            async with asyncio.timeout(PASS_S_MAX):
                return await controller.reconcile_batch(keys)
        except TimeoutError:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            logger.error("%s%s: a pass took more than %.0f s and was given up", keys[0], more, PASS_S_MAX)
            return set()

    await controller.queue.work(reconcile)


async def resync(controller: Reconcilers, events: ListingState, *, every_s: float) -> None:
    """List all objects for ever, at once after a gap; ``events.listed`` is set after the first time.

    Where every kind is defined, ``events.is_complete`` is set, too.
    """
    told = ""
    while True:
        wait_s = min(_RETRY_S, every_s)
        events.gap.clear()
        try:
            await controller.resync()
            events.listed.set()
            events.is_complete = True
            wait_s, told = every_s, ""
        except (ApiError, OSError, TimeoutError) as error:
            hint = ""
            if isinstance(error, ApiError) and error.is_missing:
                hint = " (are the CRDs installed?)"
                # What is defined is known; Topics and Users that are to go must not wait for what may never come back.
                events.listed.set()
            if told != (told := str(error)):
                logger.warning("cannot list the objects to look after%s: %s", hint, error)
        # Spread, so that operators that were started together do not ask together.
        await _pause(wait_s * (1 + _RESYNC_JITTER * (2 * random.random() - 1)), events.gap)  # noqa: S311


async def _pause(wait_s: float, unless: asyncio.Event) -> None:
    """Wait for so long, or until the event."""
    try:
        async with asyncio.timeout(wait_s):
            await unless.wait()
    except TimeoutError:
        pass
