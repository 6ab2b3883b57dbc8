"""`open_stream`: a TCP connection, with further attempts while one hangs.

One address may stand for many nodes: a Kubernetes Service or a load balancer chooses one for each connection. It may
choose a lost host for a while, and such an attempt hangs; the next attempt may get a live node.
"""

import asyncio
from typing import Final, TypeAlias

ATTEMPT_INTERVAL_S: Final = 1.0
"""Live hosts respond sooner; TCP retransmits a lost SYN after the same time."""

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_stream(host: str, port: int) -> Stream:
    """Return the first connection that succeeds; start attempts until the caller's timeout.

    Raises:
        OSError: the first attempt failed at once.
    """
    loop = asyncio.get_running_loop()
    attempts: set[asyncio.Task[Stream]] = set()
    again_s = loop.time()
    is_first = True
    try:
        while True:
            if loop.time() >= again_s:
                attempts.add(asyncio.create_task(asyncio.open_connection(host, port)))
                again_s = loop.time() + ATTEMPT_INTERVAL_S
            left_s = again_s - loop.time()
            if not attempts:
                await asyncio.sleep(left_s)
                continue
            done, attempts = await asyncio.wait(attempts, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            opened = [each for each in done if each.exception() is None]
            if opened:
                attempts.update(opened[1:])
                return opened[0].result()
            if is_first and done:
                done.pop().result()
            is_first = False
    finally:
        await _end(attempts)


async def _end(attempts: set[asyncio.Task[Stream]]) -> None:
    """Cancel the attempts in progress, and close connections that succeeded too late."""
    for each in attempts:
        each.cancel()
    for ended in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(ended, BaseException):
            ended[1].close()
