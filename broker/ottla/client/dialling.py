"""`open_stream`: a TCP connection, dialled anew beside an attempt that hangs.

One address may stand for many nodes: a Service of Kubernetes or a load balancer chooses one for each connection. Of a
machine that is lost some are still sent to it for a while, and hang there; the next may be sent to a node that lives.
"""

import asyncio
from typing import Final, TypeAlias

DIAL_AGAIN_AFTER_S: Final = 1.0
"""Hosts answer sooner; a first packet that was lost would be repeated by the system now as well."""

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_stream(host: str, port: int) -> Stream:
    """Connect, at the first attempt that succeeds; attempts go on until the caller's time is over.

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
                again_s = loop.time() + DIAL_AGAIN_AFTER_S
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
    """Cancel what is under way, and close what came up too late."""
    for each in attempts:
        each.cancel()
    for ended in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(ended, BaseException):
            ended[1].close()
