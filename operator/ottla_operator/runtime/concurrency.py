"""Concurrent calls, of which many take little longer than one."""

import asyncio
from collections.abc import Awaitable, Hashable, Mapping
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ResultT = TypeVar("ResultT")

CONCURRENT_CALLS_MAX = 16
"""Concurrent calls: enough to hide the latency of the API server, and few enough not to overload it."""


async def gather_limited(calls: Mapping[KeyT, Awaitable[ResultT]]) -> dict[KeyT, ResultT | Exception]:
    """Run all ``calls``; return by key the result or exception of each."""
    permits = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    async def run(call: Awaitable[ResultT]) -> ResultT | Exception:
        async with permits:
            try:
                return await call
            except Exception as error:
                return error

    results = await asyncio.gather(*map(run, calls.values()))
    return dict(zip(calls, results, strict=True))
