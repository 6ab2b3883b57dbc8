"""Every request of an aiohttp session to the API server as one value: the operator's own and kopf's.

A call is reported when its response starts, which for a watch is when it is open, or when it has failed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import aiohttp
from yarl import URL

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, in the terms of RBAC."""

    verb: str
    resource: str
    """Plural, with the subresource: ``clusters/status``; the whole path if it has none."""

    namespace: str
    """Empty for all namespaces."""

    code: int
    """HTTP status; 0 without a response."""

    seconds: float
    error: str
    """Why it failed; empty on success."""


OnCall: TypeAlias = Callable[[ApiCall], None]


def trace(on_call: OnCall) -> aiohttp.TraceConfig:
    """Return a trace with which a session calls ``on_call`` for each of its requests."""
    config = aiohttp.TraceConfig()

    async def started(_: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
        context.started_s = time.monotonic()

    async def ended(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
        code = end.response.status
        error = f"{code} {end.response.reason}" if code >= 400 else ""
        seconds = time.monotonic() - context.started_s
        on_call(api_call(end.method, end.url, code=code, seconds=seconds, error=error))

    async def failed(
        _: aiohttp.ClientSession, context: SimpleNamespace, failure: aiohttp.TraceRequestExceptionParams
    ) -> None:
        error = str(failure.exception) or type(failure.exception).__name__
        seconds = time.monotonic() - context.started_s
        on_call(api_call(failure.method, failure.url, code=0, seconds=seconds, error=error))

    handlers: tuple[tuple[Any, Any], ...] = (
        (config.on_request_start, started),
        (config.on_request_end, ended),
        (config.on_request_exception, failed),
    )
    for signal, handler in handlers:
        signal.append(handler)
    return config


def api_call(method: str, url: URL, *, code: int, seconds: float, error: str) -> ApiCall:
    """Return verb, resource and namespace of a request, from its URL."""
    _, root, *parts = url.path.split("/")
    rest = parts[1:] if root == "api" else parts[2:] if root == "apis" else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    resource = "/".join(rest[0:1] + rest[2:3]) or url.path
    verb = _VERBS.get(method) or ("get" if len(rest) != 1 else "watch" if "watch" in url.query else "list")
    return ApiCall(verb, resource, namespace, code, seconds, error)
