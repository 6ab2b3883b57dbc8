"""Calls that wait for others, side by side, so that many of them take little longer than one."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

ResultT = TypeVar("ResultT")

CONCURRENT_CALLS_MAX = 16
"""Calls under way: enough to hide how long the API server takes, and few enough not to be a burden to it."""


async def gather_limited(calls: Iterable[Awaitable[ResultT]]) -> list[ResultT | Exception]:
    """Make all ``calls``; return, in their order, what each returned or raised."""
    room = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    async def make(call: Awaitable[ResultT]) -> ResultT | Exception:
        async with room:
            try:
                return await call
            except Exception as error:
                return error

    return await asyncio.gather(*map(make, calls))
