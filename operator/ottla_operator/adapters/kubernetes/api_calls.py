"""Every request of an aiohttp session to the API server as one value, whoever sent it: ours and kopf's.

A call is told of when its answer begins, which for a watch is when it is open, or when there is none.
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
    """One request, in the words of RBAC."""

    verb: str
    resource: str
    """Plural, with the subresource: ``clusters/status``; the whole path where there is none."""

    namespace: str
    """Empty for all namespaces."""

    code: int
    """HTTP status; 0 when nobody answered."""

    seconds: float
    words: str
    """What went wrong; empty when nothing did."""


Told: TypeAlias = Callable[[ApiCall], None]


def trace(told: Told) -> aiohttp.TraceConfig:
    """Return what makes a session call ``told`` for each of its requests."""
    config = aiohttp.TraceConfig()

    async def began(_: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
        context.began_s = time.monotonic()

    async def ended(_: aiohttp.ClientSession, context: SimpleNamespace, answer: aiohttp.TraceRequestEndParams) -> None:
        code = answer.response.status
        words = f"{code} {answer.response.reason}" if code >= 400 else ""
        told(api_call(answer.method, answer.url, code=code, seconds=time.monotonic() - context.began_s, words=words))

    async def failed(
        _: aiohttp.ClientSession, context: SimpleNamespace, failure: aiohttp.TraceRequestExceptionParams
    ) -> None:
        words = str(failure.exception) or type(failure.exception).__name__
        told(api_call(failure.method, failure.url, code=0, seconds=time.monotonic() - context.began_s, words=words))

    handlers: tuple[tuple[Any, Any], ...] = (
        (config.on_request_start, began),
        (config.on_request_end, ended),
        (config.on_request_exception, failed),
    )
    for signal, handler in handlers:
        signal.append(handler)
    return config


def api_call(method: str, url: URL, *, code: int, seconds: float, words: str) -> ApiCall:
    """Return what a request was about, as far as its URL tells."""
    _, root, *parts = url.path.split("/")
    rest = parts[1:] if root == "api" else parts[2:] if root == "apis" else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    resource = "/".join(rest[0:1] + rest[2:3]) or url.path
    verb = _VERBS.get(method) or ("get" if len(rest) != 1 else "watch" if "watch" in url.query else "list")
    return ApiCall(verb, resource, namespace, code, seconds, words)
