"""Which failures of calls to the Kubernetes API are retried; the official client decides when, as client-go does.

Transient failures are retried a few times: a server that is overloaded (429), and, for calls that are safe to repeat,
server errors and lost connections. All others are left to the caller, who observes first. Source: client-go's
rest/with_retry.go, by `kubernetes.aio.utils.retry`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
from kubernetes.aio.utils.retry import Backoff, on_retry_after_error

from ottla_operator.errors import ApiError, LeadershipLostError

_BACKOFF = Backoff(steps=4, duration=0.125, factor=2.0, jitter=1.0)
"""The first delay is 0.125 s to 0.25 s, and each further one twice as long."""

_RETRY_AFTER_S_MAX = 10.0
"""A call that must wait longer fails, so that its worker is free for other objects."""
_FAILING_STATUSES = frozenset({500, 502, 503, 504})

ResultT = TypeVar("ResultT")


async def with_retries(send: Callable[[], Awaitable[ResultT]], *, is_repeatable: bool) -> ResultT:
    """Call ``send`` until it succeeds; raise its last error if that is not transient, or after the last attempt.

    ``send`` raises `ApiError` for an error response, TimeoutError without a response in time, and OSError if the server
    cannot be reached, caused by an `aiohttp.ClientError` if it closed the connection. ``is_repeatable`` if it may be
    executed twice: reads and server-side apply.
    """
    result: ResultT = await on_retry_after_error(
        _BACKOFF, lambda error: _is_transient(error, is_repeatable), send, sleep_func=_sleep
    )
    return result


async def _sleep(delay_s: float) -> None:
    await asyncio.sleep(delay_s)


def _is_transient(error: Exception, is_repeatable: bool) -> bool:
    if isinstance(error, TimeoutError | LeadershipLostError):
        return False
    if not isinstance(error, ApiError):
        return is_repeatable and isinstance(error.__cause__, aiohttp.ClientError)
    if (error.retry_after_s or 0) > _RETRY_AFTER_S_MAX:
        return False
    # The server rejected an overload's calls before any processing.
    return error.status == 429 or (is_repeatable and error.status in _FAILING_STATUSES)
