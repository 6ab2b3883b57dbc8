"""Assembles the operator and runs it until it is told to stop: ``python -m ottla_operator``.

Side by side on one event loop: kopf (watches, which mark keys dirty), the workers, the resync, and HTTP. When one of
them ends, the process does: Kubernetes starts it again, and the first resync brings it up to date.
"""

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import kopf
from aiohttp import web

from ottla_operator import handlers
from ottla_operator.clients import ottla_admin
from ottla_operator.clients.broker_admin import Connect
from ottla_operator.clients.kubernetes_api import KubernetesApi
from ottla_operator.controller import Controller
from ottla_operator.errors import ApiError, OperatorError
from ottla_operator.hosts.kubernetes import KubernetesHost
from ottla_operator.metrics import OperatorMetrics
from ottla_operator.model.document import GROUP
from ottla_operator.probes import Probes
from ottla_operator.settings import Settings

logger = logging.getLogger(__name__)

_RESYNC_JITTER = 0.1
_RETRY_S = 5.0
"""After a listing that failed; before the first one the operator is not ready."""


def main() -> int:
    """Run the operator; return the exit code."""
    try:
        settings = Settings.from_environment()
        logging.basicConfig(
            level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stdout
        )
        # One line per event that a handler saw is more than anybody reads.
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)
        asyncio.run(run(settings, ottla_admin.connector()))
    except (OperatorError, kopf.LoginError, ValueError, OSError) as error:
        print(f"ottla-operator: {error}", file=sys.stderr)
        return 1
    return 0


async def run(settings: Settings, connect: Connect) -> None:
    """Run until SIGTERM or SIGINT, or until a part fails; ``connect`` is the way to brokers."""
    kopf_settings = kopf_configuration()
    metrics = OperatorMetrics()
    async with KubernetesApi(lambda: login(kopf_settings)) as api:
        controller = Controller(
            api,
            lambda namespace: KubernetesHost(api, namespace, settings.default_image),
            connect,
            namespaces=settings.watch_namespaces,
            metrics=metrics,
        )
        probes = Probes(controller.queue, metrics, stall_s=settings.stall_s)
        stop, listed = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        parts: list[Coroutine[Any, Any, None]] = [
            _serve(probes, settings),
            _resync(controller, probes, settings, listed),
            _watch(controller, kopf_settings, settings, stop),
            *(_work(controller, listed) for _ in range(settings.workers)),
        ]
        await _until_one_ends(parts, stop)


def kopf_configuration() -> kopf.OperatorSettings:
    """Return kopf's settings: its own marks under our name, bounded watches, no events of its own."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.posting.enabled = False
    # The CRDs are there before the operator is; not looking for new ones saves a cluster-wide permission.
    settings.scanning.disabled = True
    # A watch that the server or a proxy forgot must end by itself.
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
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


def registry(controller: Controller) -> kopf.OperatorRegistry:
    """Return every handler of this operator."""
    result = kopf.OperatorRegistry()

    @kopf.on.login(registry=result)
    def credentials(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo:  # noqa: ANN401
        return login(settings)

    handlers.register(result, controller)
    return result


async def _watch(
    controller: Controller, kopf_settings: kopf.OperatorSettings, settings: Settings, stop: asyncio.Event
) -> None:
    await kopf.operator(
        registry=registry(controller),
        settings=kopf_settings,
        standalone=True,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
        stop_flag=stop,
    )


async def _work(controller: Controller, listed: asyncio.Event) -> None:
    """Reconcile for ever, from when every object is known: before, an older one of the same claim may be unseen."""
    await listed.wait()
    await controller.queue.work(controller.reconcile)


async def _resync(controller: Controller, probes: Probes, settings: Settings, listed: asyncio.Event) -> None:
    """List all objects for ever; ``listed`` is set after the first time."""
    while True:
        wait_s = min(_RETRY_S, settings.resync_s)
        try:
            await controller.resync()
            probes.is_ready = True
            listed.set()
            wait_s = settings.resync_s
        except ApiError as error:
            if not probes.is_ready:
                hint = " (are the CRDs installed?)" if error.is_missing else ""
                raise OperatorError(f"cannot list the objects to look after{hint}: {error}") from error
            logger.warning("resync failed: %s", error)
        except (OSError, TimeoutError) as error:
            logger.warning("resync failed: %s", error)
        # Spread, so that operators that were started together do not ask together.
        await asyncio.sleep(wait_s * (1 + _RESYNC_JITTER * (2 * random.random() - 1)))  # noqa: S311


async def _serve(probes: Probes, settings: Settings) -> None:
    runner = web.AppRunner(probes.application(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.http_host, settings.http_port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _until_one_ends(parts: list[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(part) for part in parts]
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        for task in [*tasks, stopped]:
            if not task.done():
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
