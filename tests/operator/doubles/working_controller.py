"""A worker on a controller's queue, in the time of a loop that jumps from timer to timer (`virtual_time`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from ottla_operator.controllers.manager import ControllerManager


def loop_now() -> str:
    """Return the time of the loop, as an operator's clock."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def at_work(controller: ControllerManager) -> AsyncIterator[None]:
    """Let a worker reconcile keys within the block."""
    worker = asyncio.ensure_future(controller.queue.work(controller.reconcile_batch))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
