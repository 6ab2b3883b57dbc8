"""Which calls of the Kubernetes API are sent again after a failure, and when.

What passes is tried again, a few times and with jitter: a server that asks to be left alone for a moment, and, where
doing it twice is doing it once, one that fails or hangs up. All else is the caller's, who looks again first.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp

from ottla_operator.errors import ApiError, LeadershipLostError

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
"""Content types of bodies; a PATCH is a merge (RFC 7386) or a server-side apply."""

_TRIES_MAX = 4
_BACKOFF_S_MIN = 0.25
_RETRY_AFTER_S_MAX = 10.0
"""Who is asked to wait for longer gives up, so that its worker is free for others."""
_FAILING_STATUSES = frozenset({500, 502, 503, 504})

ResultT = TypeVar("ResultT")


def is_repeatable(method: str, content_type: str = JSON) -> bool:
    """Tell whether twice is once: for what only looks, and for server-side apply."""
    return method == "GET" or content_type == APPLY


async def repeated(send: Callable[[], Awaitable[ResultT]], method: str, content_type: str = JSON) -> ResultT:
    """Return what ``send`` returns, which is called again after what passes; raise what it raises last.

    ``send`` raises `ApiError` for what the server refuses, TimeoutError when no answer came in time, and OSError when
    the server could not be asked, caused by an `aiohttp.ClientError` where it hung up.
    """
    for tried in range(1, _TRIES_MAX + 1):
        try:
            return await send()
        except (ApiError, OSError) as error:
            wait_s = _wait_s(error, tried, method, content_type)
            if wait_s is None:
                raise
        await asyncio.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311
    raise AssertionError("the last try returns or raises")


def _wait_s(error: Exception, tried: int, method: str, content_type: str) -> float | None:
    """Return how long at most to wait before the next try; None where there is none."""
    if tried == _TRIES_MAX or isinstance(error, TimeoutError | LeadershipLostError):
        return None
    backoff_s = _BACKOFF_S_MIN * 2 ** (tried - 1)
    if isinstance(error, ApiError) and error.status == 429:
        # It was not even looked at.
        asked_s = error.retry_after_s or 0.0
        return max(asked_s * 2, backoff_s) if asked_s <= _RETRY_AFTER_S_MAX else None
    is_hung_up = isinstance(error.__cause__, aiohttp.ClientError)
    is_failure = error.status in _FAILING_STATUSES if isinstance(error, ApiError) else is_hung_up
    return backoff_s if is_failure and is_repeatable(method, content_type) else None
