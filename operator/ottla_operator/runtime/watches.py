"""kopf's watches, restarted whenever they end: after a CRD was deleted, or while the API server rejects requests.

kopf runs in a thread with an event loop of its own, because at its end it cancels every task of its loop, including
tasks of others, and installs a handler of SIGTERM. Only marks and signs of life leave that thread.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import aiohttp
import kopf
from kubernetes.aio.client.rest import RESTClientObject

from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.adapters.kubernetes.api_calls import ApiCall, OnCall, trace
from ottla_operator.adapters.kubernetes.credentials import BEARER, LoadConfiguration
from ottla_operator.adapters.kubernetes.resources import RESOURCES
from ottla_operator.errors import ApiError
from ottla_operator.model.document import GROUP, KINDS, Document
from ottla_operator.runtime import handlers
from ottla_operator.runtime.handlers.events import Marks
from ottla_operator.runtime.watch_health import WatchHealth

logger = logging.getLogger(__name__)

WATCH_S = 120
"""The API server ends a watch after so long, and kopf reopens it at the same version: a dead watch is noticed by
that."""

WATCHED_KINDS = (*KINDS, "StatefulSet")

_BACKOFF_S_MIN, _BACKOFF_S_MAX = 1.0, 30.0
_END_S = 5.0
"""How long kopf may take to end by itself, and as long again after all its tasks are cancelled."""
_CANCELS_MAX = 10
_RELOGIN_S = 1.0
"""Delay before the same credentials are used again that were just rejected: a new token may be on its way."""


def watch_targets(namespaces: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the watched resources as (plural, namespace)."""
    return [(RESOURCES[kind].plural, namespace) for kind in WATCHED_KINDS for namespace in namespaces or ("",)]


class Watches:
    """Watches of all kinds that the operator reconciles, as long as `run` runs."""

    def __init__(
        self,
        api: KubernetesApi,
        marks: Marks,
        *,
        namespaces: tuple[str, ...],
        health: WatchHealth,
        on_call: OnCall,
        gap: Callable[[], None],
        load: LoadConfiguration,
    ) -> None:
        """``on_call`` receives requests; ``gap`` is called after watches reopened and may have missed events."""
        self._api = api
        self._marks = marks
        self._namespaces = namespaces
        self._health = health
        self._on_call = on_call
        self._gap = gap
        self._load = load
        self._down: str | None = None

    async def run(self) -> None:
        """Watch until cancelled; when kopf ends, log the reason and restart it."""
        backoff_s = _BACKOFF_S_MIN
        while True:
            started_s = time.monotonic()
            try:
                await self._find_definitions()
                await self._run_kopf()
                problem = "kopf ended"
            except (ApiError, OSError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if time.monotonic() - started_s > _BACKOFF_S_MAX:
                backoff_s = _BACKOFF_S_MIN
            if problem != self._down:
                logger.warning("nothing is watched: %s; retrying", problem)
            self._down = problem
            self._health.observe_failure(problem, time.monotonic())
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1))  # noqa: S311
            backoff_s = min(backoff_s * 2, _BACKOFF_S_MAX)

    async def _find_definitions(self) -> None:
        """Raise unless every watched kind can be listed: kopf would wait without limit for a kind that is missing."""
        for kind in WATCHED_KINDS:
            for namespace in self._namespaces or ("",):
                try:
                    await self._api.can_list(kind, namespace)
                except ApiError as error:
                    hint = f" (is the CRD {RESOURCES[kind].plural}.{GROUP} installed?)" if error.is_missing else ""
                    raise OSError(f"{RESOURCES[kind].plural} cannot be listed: {error}{hint}") from error

    async def _run_kopf(self) -> None:
        """Run kopf in its thread until it ends, or this is cancelled; raise its error."""
        here = asyncio.get_running_loop()
        ended: asyncio.Future[None] = here.create_future()
        kopf_run = _KopfRun(self._settings_of_run(here), ended, here)
        thread = threading.Thread(target=kopf_run.main, name="kopf", daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        finally:
            kopf_run.stop()

    def _settings_of_run(self, here: asyncio.AbstractEventLoop) -> dict[str, Any]:
        settings = kopf_settings()
        marks = MarksFromAnotherThread(self._marks, self._health, here)

        def on_call(call: ApiCall) -> None:
            here.call_soon_threadsafe(self._on_call_in_loop, call)

        return {
            "registry": registry(marks, on_call, self._load),
            "settings": settings,
            "standalone": True,
            "clusterwide": not self._namespaces,
            "namespaces": self._namespaces,
        }

    def _on_call_in_loop(self, call: ApiCall) -> None:
        self._on_call(call)
        if (news := self._health.observe_request(call, time.monotonic())) is not None:
            logger.log(logging.WARNING if call.error else logging.INFO, "%s", news)
        if self._down is not None and self._health.problem is None:
            self._down = None
            self._gap()


class _KopfRun:
    """One run of kopf, in the thread that calls `main`."""

    def __init__(
        self, arguments: dict[str, Any], ended: asyncio.Future[None], loop_of_ended: asyncio.AbstractEventLoop
    ) -> None:
        self._arguments = arguments
        self._ended = ended
        self._loop_of_ended = loop_of_ended
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flag: asyncio.Event | None = None

    def main(self) -> None:
        error: Exception | None = None
        try:
            asyncio.run(self._run())
        except Exception as failure:
            error = failure
        if not self._loop_of_ended.is_closed():
            self._loop_of_ended.call_soon_threadsafe(self._report_end, error)

    def stop(self) -> None:
        """Request kopf to end, from another thread."""
        self._stop.set()
        loop, flag = self._loop, self._flag
        if loop is not None and flag is not None and not loop.is_closed():
            loop.call_soon_threadsafe(flag.set)

    async def _run(self) -> None:
        self._flag = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_log_error_of_kopf)
        if self._stop.is_set():
            return
        roots = await kopf.spawn_tasks(stop_flag=self._flag, **self._arguments)
        ended, _ = await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
        await _end(roots)
        for root in ended:
            if not root.cancelled() and (error := root.exception()) is not None:
                raise error

    def _report_end(self, error: Exception | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


def _log_error_of_kopf(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a task that kopf never awaited: of several watches that fail at once, it awaits the first.

    In one line: the garbage collector may run this at any later time, when a traceback would mislead.
    """
    logger.warning("kopf: %s: %s", context["message"], context.get("exception"))


async def _end(roots: Collection[asyncio.Task[None]]) -> None:
    """End kopf after one of its root tasks has ended.

    Its own `kopf.operator` waits without limit for a watch that requests new credentials, which then never come.
    """
    for root in roots:
        root.cancel()
    await asyncio.wait(roots, timeout=_END_S)
    for _ in range(_CANCELS_MAX):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        # A watch takes one cancellation for the end of its request, and starts another.
        await asyncio.wait(left, timeout=_END_S / _CANCELS_MAX)


class MarksFromAnotherThread:
    """Passes marks from kopf's thread to the loop of the manager."""

    def __init__(self, marks: Marks, health: WatchHealth, loop: asyncio.AbstractEventLoop) -> None:
        self._marks = marks
        self._health = health
        self._loop = loop

    def seen(self, document: Document) -> None:
        self._loop.call_soon_threadsafe(self._mark, self._marks.seen, document)

    def gone(self, document: Document) -> None:
        self._loop.call_soon_threadsafe(self._mark, self._marks.gone, document)

    def child_seen(self, namespace: str, cluster: str) -> None:
        self._loop.call_soon_threadsafe(self._mark_child, namespace, cluster)

    def _mark(self, mark: Callable[[Document], None], document: Document) -> None:
        self._live(document["kind"], document["metadata"].get("namespace", ""))
        mark(document)

    def _mark_child(self, namespace: str, cluster: str) -> None:
        self._live("StatefulSet", namespace)
        self._marks.child_seen(namespace, cluster)

    def _live(self, kind: str, namespace: str) -> None:
        self._health.observe_event(RESOURCES[kind].plural, namespace, time.monotonic())


def kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: its annotations under this operator's prefix, bounded watches, no Events of its own."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.posting.enabled = False
    # `Watches` detects recreated CRDs itself; without scanning, no cluster-wide permission is needed.
    settings.scanning.disabled = True
    # The timeout would kill kopf's thread, and with it this process, some time after kopf has ended.
    settings.process.ultimate_exiting_timeout = None
    # A watch that the server or a proxy lost must end by itself; without any bookmark it does so after 70 s.
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + 10
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 60
    return settings


def registry(marks: Marks, on_call: OnCall, load: LoadConfiguration) -> kopf.OperatorRegistry:
    """Return every handler of this operator; kopf's requests have the operator's credentials, and are observed too."""
    result = kopf.OperatorRegistry()
    used: list[str | None] = []

    @kopf.on.login(registry=result)
    async def credentials(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401
        found = await load()
        if used[-1:] == [found.api_key.get(BEARER)]:
            await asyncio.sleep(_RELOGIN_S)
            found = await load()
        authorization = found.api_key.get(BEARER)
        used[:] = [authorization]
        session = aiohttp.ClientSession(
            headers={"Authorization": authorization} if authorization else {},
            connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(found).ssl_context),
            trace_configs=[trace(on_call)],
        )
        return kopf.AiohttpSession(server=found.host, aiohttp_session=session)

    handlers.register(result, marks)
    return result
