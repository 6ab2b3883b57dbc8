"""One operator process in a simulation: the real controller with its queue, workers and resync, on simulated time."""

import asyncio
from collections.abc import Callable

from ottla.simulator.event_loop import SimulatedEventLoop
from ottla_operator.clients import ottla_admin
from ottla_operator.controller import Controller
from ottla_operator.hosts.kubernetes_secrets import KubernetesSecrets
from ottla_operator.model.document import Document
from ottla_operator.simulation.calendar import shown
from ottla_operator.simulation.host import HostState, SimulatedHost
from ottla_operator.simulation.steps import StepTaker, WatchedHost, WatchedSecrets, watched
from ottla_operator.simulation.store import Store

WORKERS = 2
RESYNC_S = 30.0


class OperatorProcess:
    """See the module. It knows nothing but what it reads from ``store``, the host and the brokers."""

    def __init__(
        self,
        loop: SimulatedEventLoop,
        state: HostState,
        store: Store,
        steps: StepTaker,
        draw: Callable[[int], int],
        *,
        name: str = "",
    ) -> None:
        """``name`` is that of its installation, where there are several."""
        host = WatchedHost(SimulatedHost(state), steps)
        self._loop = loop
        self._controller = Controller(
            store,
            lambda _: host,
            watched(ottla_admin.connector(), steps),
            now=lambda: shown(loop.time()),
            now_s=loop.time,
            secret_store=lambda namespace: WatchedSecrets(KubernetesSecrets(store, namespace), steps),
            draw=draw,
            name=name,
        )
        self._parts = [loop.create_task(self._resync())]
        self._parts += [loop.create_task(self._work()) for _ in range(WORKERS)]

    def seen(self, document: Document) -> None:
        """An event of a watch: the object was made or changed."""
        self._loop.call_soon(self._controller.seen, document)

    def gone(self, document: Document) -> None:
        """An event of a watch: the object is there no more."""
        self._loop.call_soon(self._controller.gone, document)

    def child_seen(self, cluster: str) -> None:
        """An event of a watch: a node of the cluster came or went."""
        self._loop.call_soon(self._controller.child_seen, "", cluster)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._loop.kill()

    def failure(self) -> BaseException | None:
        """Return why a part of it has ended by itself; None while all run."""
        return next((part.exception() or RuntimeError("a worker ended") for part in self._parts if part.done()), None)

    async def _work(self) -> None:
        await self._controller.queue.work(self._controller.reconcile_together)

    async def _resync(self) -> None:
        while True:
            await self._controller.resync()
            await asyncio.sleep(RESYNC_S)
