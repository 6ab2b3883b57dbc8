"""Assembles the operator and runs it until it is stopped: ``python -m ottla_operator``.

It stands by until it holds the Lease. Then these run concurrently: kopf's watches, which mark keys dirty, the workers,
the resync, and the renewal of the Lease. HTTP is served all the time. When one part ends, so does the process:
Kubernetes restarts it, and another one leads in the meantime.
"""

import asyncio
import logging
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

from aiohttp import web

from ottla_operator.adapters.kafka import ottla_admin
from ottla_operator.adapters.kubernetes.api import KubernetesApi
from ottla_operator.adapters.kubernetes.credentials import load_configuration
from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.errors import LeadershipLostError, OperatorError
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect
from ottla_operator.runtime.leadership import Leadership
from ottla_operator.runtime.metrics import OperatorMetrics
from ottla_operator.runtime.probes import Probes
from ottla_operator.runtime.settings import Settings
from ottla_operator.runtime.watch_health import WatchHealth
from ottla_operator.runtime.watches import Watches, watch_targets
from ottla_operator.runtime.workers import ListingState, resync, work

logger = logging.getLogger(__name__)


def main() -> int:
    """Run the operator; return the exit code."""
    try:
        settings = Settings.from_environment()
        _set_up_logging(settings)
        asyncio.run(run(settings, ottla_admin.connector()))
    except LeadershipLostError as error:
        logger.error("%s; exiting, so that no step is executed twice", error)
        return 1
    except (OperatorError, ValueError, OSError) as error:
        print(f"ottla-operator: {error}", file=sys.stderr)
        return 1
    return 0


def _set_up_logging(settings: Settings) -> None:
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stdout
    )
    # kopf logs one line per event and handler.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    # Every attempt of every watch, while the API server is away; `Watches` logs when one opens or fails.
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
    # The warning that it handles no signals outside of the main thread.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


async def run(settings: Settings, connect: Connect) -> None:
    """Run until SIGTERM or SIGINT, or until a part fails; ``connect`` connects to brokers."""
    stop, metrics = asyncio.Event(), OperatorMetrics()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        leadership: Leadership | None = None
        if settings.lease_namespace:
            # A session of its own: renewals never wait behind other requests, and may be sent before any other write.
            lease_api = await stack.enter_async_context(
                KubernetesApi(load_configuration, on_call=metrics.observe_api_call)
            )
            leadership = Leadership(
                lease_api,
                namespace=settings.lease_namespace,
                name=settings.lease_name,
                identity=f"{settings.pod_name or socket.gethostname()}_{uuid.uuid4().hex[:8]}",
            )
        may_write: Callable[[], bool] = leadership.may_write if leadership is not None else lambda: True
        api = await stack.enter_async_context(
            KubernetesApi(load_configuration, on_call=metrics.observe_api_call, may_write=may_write)
        )
        controller = ControllerManager(
            api,
            lambda namespace: KubernetesHost(api, namespace, settings.default_image, settings.pods),
            leaders_only(connect, may_write),
            namespaces=settings.watch_namespaces,
            metrics=metrics,
            name=settings.name,
        )
        events = ListingState()
        health = WatchHealth(watch_targets(settings.watch_namespaces), monotonic())
        probes = Probes(
            controller.queue,
            health,
            metrics,
            leadership=leadership,
            stall_s=settings.stall_s,
            watch_stall_s=settings.watch_stall_s,
            is_listed=lambda: events.is_complete,
        )
        watches = Watches(
            api,
            controller,
            namespaces=settings.watch_namespaces,
            health=health,
            on_call=metrics.observe_api_call,
            gap=events.gap.set,
            load=load_configuration,
        )
        parts = [
            watches.run(),
            resync(controller, events, every_s=settings.resync_s),
            *(work(controller, events.listed) for _ in range(settings.workers)),
        ]
        await _until_one_ends([_serve(probes, settings), _lead(leadership, probes, health, parts)], stop)


def leaders_only(connect: Connect, may_write: Callable[[], bool]) -> Connect:
    """Return ``connect``, guarded: it raises unless this operator leads."""

    @asynccontextmanager
    async def guarded(bootstrap_servers: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
        if not may_write():
            raise LeadershipLostError(f"no request is sent to {bootstrap_servers}: this operator does not lead")
        async with connect(bootstrap_servers, properties) as broker:
            yield broker

    return guarded


async def _lead(
    leadership: Leadership | None, probes: Probes, health: WatchHealth, parts: list[Coroutine[Any, Any, None]]
) -> None:
    """Stand by, then lead until the leadership is lost, or until cancelled, which releases the Lease."""
    started = False
    try:
        if leadership is not None:
            await leadership.acquire()
        health.observe_failure("not opened yet", monotonic())
        probes.leads = started = True
        keeping = [leadership.keep()] if leadership is not None else []
        await _until_one_ends([*parts, *keeping], asyncio.Event())
    finally:
        if not started:
            for part in parts:
                part.close()
        # Last: no part of this process writes any more.
        if leadership is not None:
            await leadership.release()


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
