"""kopf's watches, begun again whenever they end: a definition that was deleted, an API server that refuses.

kopf runs in a thread with an event loop of its own, because at its end it cancels every task of its loop, whoever
began it, and takes SIGTERM for itself. All that comes out of that thread are marks and signs of life.
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

from ottla_operator.adapters.kubernetes.api import RESOURCES, KubernetesApi
from ottla_operator.adapters.kubernetes.api_calls import ApiCall, Told, trace
from ottla_operator.errors import ApiError
from ottla_operator.model.document import GROUP, KINDS, Document
from ottla_operator.runtime import handlers
from ottla_operator.runtime.handlers.events import Marks
from ottla_operator.runtime.watch_health import WatchHealth

logger = logging.getLogger(__name__)

WATCH_S = 120
"""The API server ends a watch after so long, and it is opened again where it was: what is dead is noticed by that."""

WATCHED_KINDS = (*KINDS, "StatefulSet")

_BACKOFF_S_MIN, _BACKOFF_S_MAX = 1.0, 30.0
_END_S = 5.0
"""So long kopf may take to end by itself, and as long once more when everything of it is cancelled."""
_CANCELS_MAX = 10
_RELOGIN_S = 1.0
"""Before the same credentials are tried again that were just refused: a new token may be on its way."""


def watch_targets(namespaces: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return what is watched as (plural, namespace)."""
    return [(RESOURCES[kind].plural, namespace) for kind in WATCHED_KINDS for namespace in namespaces or ("",)]


class Watches:
    """Watches of all that the operator looks after, as long as `run` runs."""

    def __init__(
        self,
        api: KubernetesApi,
        marks: Marks,
        *,
        namespaces: tuple[str, ...],
        health: WatchHealth,
        told: Told,
        gap: Callable[[], None],
        login: Callable[[kopf.OperatorSettings], kopf.ConnectionInfo],
    ) -> None:
        """``told`` hears of requests; ``gap`` is called when watches are open again and may have missed events."""
        self._api = api
        self._marks = marks
        self._namespaces = namespaces
        self._health = health
        self._told = told
        self._gap = gap
        self._login = login
        self._down: str | None = None

    async def run(self) -> None:
        """Watch until cancelled; what ends kopf is told, and it begins again."""
        backoff_s = _BACKOFF_S_MIN
        while True:
            began_s = time.monotonic()
            try:
                await self._find_definitions()
                await self._run_kopf()
                problem = "kopf ended"
            except (ApiError, OSError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if time.monotonic() - began_s > _BACKOFF_S_MAX:
                backoff_s = _BACKOFF_S_MIN
            if problem != self._down:
                logger.warning("nothing is watched: %s; trying again", problem)
            self._down = problem
            self._health.tried(problem, time.monotonic())
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1))  # noqa: S311
            backoff_s = min(backoff_s * 2, _BACKOFF_S_MAX)

    async def _find_definitions(self) -> None:
        """Raise unless all that is to be watched can be listed: kopf would wait for ever for a kind that is missing."""
        for kind in WATCHED_KINDS:
            for namespace in self._namespaces or ("",):
                try:
                    await self._api.can_list(kind, namespace)
                except ApiError as error:
                    hint = f" (is the CRD {RESOURCES[kind].plural}.{GROUP} installed?)" if error.is_missing else ""
                    raise OSError(f"{RESOURCES[kind].plural} cannot be listed: {error}{hint}") from error

    async def _run_kopf(self) -> None:
        """Run kopf in its thread until it ends, or this is cancelled; raise what ended it."""
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

        def told(call: ApiCall) -> None:
            here.call_soon_threadsafe(self._heard, call)

        return {
            "registry": registry(marks, told, self._login),
            "settings": settings,
            "standalone": True,
            "clusterwide": not self._namespaces,
            "namespaces": self._namespaces,
        }

    def _heard(self, call: ApiCall) -> None:
        self._told(call)
        if (news := self._health.heard(call, time.monotonic())) is not None:
            logger.log(logging.WARNING if call.words else logging.INFO, "%s", news)
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
            self._loop_of_ended.call_soon_threadsafe(self._tell, error)

    def stop(self) -> None:
        """Ask kopf to end, from another thread; it does so by itself."""
        self._stop.set()
        loop, flag = self._loop, self._flag
        if loop is not None and flag is not None and not loop.is_closed():
            loop.call_soon_threadsafe(flag.set)

    async def _run(self) -> None:
        self._flag = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stop.is_set():
            return
        roots = await kopf.spawn_tasks(stop_flag=self._flag, **self._arguments)
        ended, _ = await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
        await _end(roots)
        for root in ended:
            if not root.cancelled() and (error := root.exception()) is not None:
                raise error

    def _tell(self, error: Exception | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


async def _end(roots: Collection[asyncio.Task[None]]) -> None:
    """End kopf after one of its root tasks has ended.

    Its own `kopf.operator` waits without a limit for a watch that asks for new credentials, which nobody gives then.
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
        # A watch takes one cancellation for the end of its request, and begins another.
        await asyncio.wait(left, timeout=_END_S / _CANCELS_MAX)


class MarksFromAnotherThread:
    """Hands marks from kopf's thread to the loop that they belong to."""

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
        self._health.told(RESOURCES[kind].plural, namespace, time.monotonic())


def kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: its own marks under our name, bounded watches, no events of its own."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.posting.enabled = False
    # `Watches` finds definitions that come back; not looking for new ones saves a cluster-wide permission.
    settings.scanning.disabled = True
    # It would kill its thread, and with that this process, some time after it has ended.
    settings.process.ultimate_exiting_timeout = None
    # A watch that the server or a proxy forgot must end by itself; without any bookmark it does so after 70 s.
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + 10
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 60
    return settings


def login(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Return the credentials of the pod's service account, else those of KUBECONFIG.

    Raises:
        kopf.LoginError: there are neither.
    """
    logger_ = logging.getLogger("ottla_operator.login")
    found = kopf.login_with_service_account(settings=settings, logger=logger_)
    found = found or kopf.login_with_kubeconfig(settings=settings, logger=logger_)
    if found is None:
        raise kopf.LoginError("no credentials: neither a service account's token nor a KUBECONFIG is there")
    return found


def registry(
    marks: Marks, told: Told, login: Callable[[kopf.OperatorSettings], kopf.ConnectionInfo]
) -> kopf.OperatorRegistry:
    """Return every handler of this operator; kopf's own requests are told of as ours are."""
    result = kopf.OperatorRegistry()
    used: list[str | None] = []

    @kopf.on.login(registry=result)
    async def credentials(settings: kopf.OperatorSettings, **_: Any) -> kopf.AiohttpSession:  # noqa: ANN401
        found = login(settings)
        if used[-1:] == [found.token]:
            await asyncio.sleep(_RELOGIN_S)
            found = login(settings)
        used[:] = [found.token]
        session = aiohttp.ClientSession(
            headers=found.as_http_headers(),
            connector=aiohttp.TCPConnector(limit=0, ssl=found.as_ssl_context()),
            trace_configs=[trace(told)],
        )
        return kopf.AiohttpSession(
            server=found.server, default_namespace=found.default_namespace, aiohttp_session=session
        )

    handlers.register(result, marks)
    return result
