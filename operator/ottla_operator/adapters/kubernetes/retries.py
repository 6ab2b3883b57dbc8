"""Retries of calls to the Kubernetes API: which failures are retried, and when.

Transient failures are retried a few times with jitter: a server that is overloaded (429), and, for calls that are safe
to repeat, server errors and lost connections. All others are left to the caller, who observes first.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp

from ottla_operator.errors import ApiError, LeadershipLostError

JSON = "application/json"
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
"""Content types of bodies; a PATCH is a merge (RFC 7386), a JSON patch (RFC 6902) or a server-side apply."""

_TRIES_MAX = 4
_BACKOFF_S_MIN = 0.25
_RETRY_AFTER_S_MAX = 10.0
"""A call that must wait longer fails, so that its worker is free for other objects."""
_FAILING_STATUSES = frozenset({500, 502, 503, 504})

ResultT = TypeVar("ResultT")


def is_repeatable(method: str, content_type: str = JSON) -> bool:
    """Tell whether a call is safe to repeat: reads and server-side apply are."""
    return method == "GET" or content_type == APPLY


async def with_retries(send: Callable[[], Awaitable[ResultT]], method: str, content_type: str = JSON) -> ResultT:
    """Call ``send`` until it succeeds; raise its last error if that is not transient, or after the last attempt.

    ``send`` raises `ApiError` for an error response, TimeoutError without a response in time, and OSError if the server
    cannot be reached, caused by an `aiohttp.ClientError` if it closed the connection.
    """
    for tried in range(1, _TRIES_MAX + 1):
        try:
            return await send()
        except (ApiError, OSError) as error:
            wait_s = _wait_s(error, tried, method, content_type)
            if wait_s is None:
                raise
        await asyncio.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311
    raise AssertionError("the last attempt returns or raises")


def _wait_s(error: Exception, tried: int, method: str, content_type: str) -> float | None:
    """Return the maximum delay before the next attempt; None if there is none."""
    if tried == _TRIES_MAX or isinstance(error, TimeoutError | LeadershipLostError):
        return None
    backoff_s = _BACKOFF_S_MIN * 2 ** (tried - 1)
    if isinstance(error, ApiError) and error.status == 429:
        # The server rejected it before any processing.
        requested_s = error.retry_after_s or 0.0
        return max(requested_s * 2, backoff_s) if requested_s <= _RETRY_AFTER_S_MAX else None
    is_hung_up = isinstance(error.__cause__, aiohttp.ClientError)
    is_failure = error.status in _FAILING_STATUSES if isinstance(error, ApiError) else is_hung_up
    return backoff_s if is_failure and is_repeatable(method, content_type) else None
