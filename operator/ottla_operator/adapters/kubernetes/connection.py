"""Single requests to the API server, through the official client: credentials, the write fence, retries, errors.

The client is `kubernetes.aio`. Its errors end here: callers see `ApiError`, OSError and TimeoutError.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, Configuration
from kubernetes.aio.dynamic import DynamicClient, Resource
from kubernetes.aio.utils.retry import retry_after_seconds

from ottla_operator.adapters.kubernetes.api_calls import OnCall, trace
from ottla_operator.adapters.kubernetes.credentials import BEARER, LoadConfiguration
from ottla_operator.adapters.kubernetes.resources import RESOURCES
from ottla_operator.adapters.kubernetes.retries import with_retries
from ottla_operator.errors import NAMESPACE_TERMINATING, ApiError, CredentialsError, LeadershipLostError
from ottla_operator.model.document import Document, Json

REQUEST_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 5

_METHODS = {
    "get": "GET",
    "create": "POST",
    "replace": "PUT",
    "patch": "PATCH",
    "server_side_apply": "PATCH",
    "delete": "DELETE",
}
"""HTTP methods of the dynamic client's verbs."""

_REPEATABLE = frozenset({"get", "server_side_apply"})
"""Verbs that may be executed twice."""


class Connection:
    """One client of the API server, between `open` and `close`."""

    def __init__(
        self,
        load: LoadConfiguration,
        *,
        on_call: OnCall | None,
        may_write: Callable[[], bool],
        request_timeout_s: float,
    ) -> None:
        """``on_call`` receives each request; a request that changes something is not sent unless ``may_write``."""
        self._load = load
        self._trace = [trace(on_call)] if on_call is not None else []
        self._may_write = may_write
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        self._reloading = asyncio.Lock()
        self._client: DynamicClient | None = None
        self._resources: dict[str, Resource] = {}

    async def open(self) -> None:
        """Load the credentials; nothing is sent."""
        configuration = await self._load()
        configuration.trace_configs = self._trace
        # Not awaited, which would discover all kinds of the server, and store them in a shared temporary file.
        self._client = DynamicClient(ApiClient(configuration))
        self._resources = {kind: _resource(self._client, kind) for kind in RESOURCES}

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.client.close()
            self._client = None

    async def send(
        self, verb: str, kind: str, *, namespace: str, name: str = "", subresource: str = "", **arguments: object
    ) -> Document:
        """Send one request with a verb of the dynamic client and its ``arguments``; return the response's object.

        It is repeated after transient failures.

        Raises:
            ApiError: an error response.
            LeadershipLostError: it changes something, and this process may not write.
            TimeoutError: no response in time.
            OSError: no response.
        """
        assert self._client is not None, "use the client inside `async with`"
        resource = self._resources[kind].subresources[subresource] if subresource else self._resources[kind]
        place = {key: value for key, value in (("namespace", namespace), ("name", name)) if value}
        what = f"{_METHODS[verb]} {resource.path(**place)}"
        request = partial(getattr(self._client, verb), resource, **place, **arguments)

        async def exchange() -> Document:
            if verb != "get" and not self._may_write():
                raise LeadershipLostError(f"{what} is not sent: this operator does not lead")
            return await self._exchange(request, what)

        configuration = self._client.configuration
        return await with_retries(lambda: self._logged_in(configuration, exchange), is_repeatable=verb in _REPEATABLE)

    async def _logged_in(self, configuration: Configuration, exchange: Callable[[], Awaitable[Document]]) -> Document:
        """Repeat the exchange once with new credentials if the server rejects those in use.

        Of several requests that fail with the same credentials, the first one loads new ones for all.
        """
        used = configuration.api_key.get(BEARER)
        try:
            return await exchange()
        except ApiError as error:
            if error.status != 401:
                raise
            rejection = error
        async with self._reloading:
            if configuration.api_key.get(BEARER) == used:
                try:
                    fresh = await self._load()
                except CredentialsError as missing:
                    raise rejection from missing
                configuration.api_key = fresh.api_key
                configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
        return await exchange()

    async def _exchange(self, request: Callable[..., Any], what: str) -> Document:
        try:
            response = await request(serialize=False, _request_timeout=self._timeout)
            async with response:
                content = await response.read()
        except ApiException as error:
            raise _rejection(error, what) from None
        except TimeoutError as error:
            raise TimeoutError(f"the API server did not respond to {what} in time") from error
        except aiohttp.ClientError as error:
            raise OSError(f"the API server did not respond to {what}: {error}") from error
        parsed = _parsed(content)
        if parsed is None:
            raise OSError(f"the response to {what} at the API server's address is not JSON")
        return parsed


def _resource(client: DynamicClient, kind: str) -> Resource:
    known = RESOURCES[kind]
    status = {"name": f"{known.plural}/status", "kind": kind, "namespaced": known.is_namespaced}
    return Resource(
        prefix="apis" if known.group else "api",
        group=known.group,
        api_version=known.version,
        kind=kind,
        name=known.plural,
        namespaced=known.is_namespaced,
        client=client,
        subresources={"status": status},
    )


def _parsed(content: bytes | str) -> Document | None:
    """Return the object in a body, an empty body as an empty object; None if it has none, as a proxy's page."""
    try:
        parsed: Json = json.loads(content or b"{}")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _rejection(error: ApiException, what: str) -> ApiError:
    status = _parsed(error.body or "") or {}
    details = status.get("details") or {}
    reason = status.get("reason") or error.reason or "Unknown"
    if any(cause.get("reason") == NAMESPACE_TERMINATING for cause in details.get("causes") or ()):
        reason = NAMESPACE_TERMINATING
    return ApiError(error.status, reason, status.get("message") or what, retry_after_s=retry_after_seconds(error))
