"""Tasks that run while an operator leads: workers that reconcile dirty keys, and the periodic resync."""

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

RECONCILE_S_MAX = 300.0
"""Calls have limits of seconds; a reconciliation that takes so long hangs, and would block its cluster without end."""
_RESYNC_JITTER = 0.1
_RETRY_S = 5.0
"""After a failed listing."""


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
    """Set once every object of the installed kinds is known."""
    is_complete: bool = False
    """Whether every kind is installed, and was listed."""
    gap: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when events may have been missed: list again soon."""


async def work(controller: Reconcilers, listed: asyncio.Event) -> None:
    """Reconcile until cancelled, after the first listing: before it, an older claimant may be unknown."""
    await listed.wait()

    async def reconcile(keys: Sequence[ObjectKey]) -> set[ObjectKey]:
        try:
            async with asyncio.timeout(RECONCILE_S_MAX):
                return await controller.reconcile_batch(keys)
        except TimeoutError:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            logger.error(
                "%s%s: a reconciliation took more than %.0f s and was cancelled", keys[0], more, RECONCILE_S_MAX
            )
            return set()

    await controller.queue.work(reconcile)


async def resync(controller: Reconcilers, events: ListingState, *, every_s: float) -> None:
    """List all objects until cancelled, at once after a gap; ``events.listed`` is set after the first time.

    ``events.is_complete`` is set as well once every kind is installed.
    """
    logged = ""
    while True:
        wait_s = min(_RETRY_S, every_s)
        events.gap.clear()
        try:
            await controller.resync()
            events.listed.set()
            events.is_complete = True
            wait_s, logged = every_s, ""
        except (ApiError, OSError, TimeoutError) as error:
            hint = ""
            if isinstance(error, ApiError) and error.is_missing:
                hint = " (are the CRDs installed?)"
                # Installed kinds are known; their objects' deletion must not wait for a CRD that may never come back.
                events.listed.set()
            if logged != (logged := str(error)):
                logger.warning("cannot list objects%s: %s", hint, error)
        # With jitter, so that operators that were started together do not list together.
        await _pause(wait_s * (1 + _RESYNC_JITTER * (2 * random.random() - 1)), events.gap)  # noqa: S311


async def _pause(wait_s: float, unless: asyncio.Event) -> None:
    """Wait for so long, or until the event."""
    try:
        async with asyncio.timeout(wait_s):
            await unless.wait()
    except TimeoutError:
        pass
