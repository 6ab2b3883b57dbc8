"""One operator process in a simulation: the real controller with its queue, workers and listings, on simulated time."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

from operator_simulation.api import SimulatedApi
from operator_simulation.api_faults import ApiFaults
from operator_simulation.calendar import shown
from operator_simulation.host import HostState, SimulatedHost
from operator_simulation.host_behind_api import HostBehindApi
from operator_simulation.steps import StepTaker, WatchedHost, WatchedSecrets, watched
from operator_simulation.store import Store
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla_operator.adapters.kafka import ottla_admin
from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.document import Document
from ottla_operator.runtime.workers import ListingState, resync, work

WORKERS = 2
RESYNC_S = 30.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """State that outlives every operator."""

    state: HostState
    store: Store
    faults: ApiFaults
    draw: Callable[[int], int]


class OperatorProcess:
    """It knows only the responses of the API server, the host and the brokers."""

    def __init__(self, loop: SimulatedEventLoop, around: Surroundings, steps: StepTaker, *, name: str = "") -> None:
        """``name`` is that of its installation, if there are several."""
        self._loop = loop
        self._around = around
        self._events = ListingState()
        self._held: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        api = SimulatedApi(around.store, around.faults)
        host = HostBehindApi(
            WatchedHost(SimulatedHost(around.state, lambda: around.faults.rejects_pods), steps), api, around.state
        )
        self._controller = ControllerManager(
            api,
            lambda _: host,
            watched(ottla_admin.connector(), steps),
            now=lambda: shown(loop.time()),
            now_s=loop.time,
            secret_store=lambda namespace: WatchedSecrets(KubernetesSecrets(api, namespace), steps),
            draw=around.draw,
            name=name,
        )
        self._parts = [loop.create_task(resync(self._controller, self._events, every_s=RESYNC_S))]
        self._parts += [loop.create_task(work(self._controller, self._events.listed)) for _ in range(WORKERS)]

    def seen(self, document: Document) -> None:
        """An event of a watch: the object was created or changed."""
        self._deliver(self._controller.seen, document)

    def gone(self, document: Document) -> None:
        """An event of a watch: the object was deleted."""
        self._deliver(self._controller.gone, document)

    def child_seen(self, cluster: str) -> None:
        """An event of a watch: a node of the cluster started or ended."""
        self._deliver(self._controller.child_seen, "", cluster)

    def catch_up(self, cluster: str) -> None:
        """Watches are open again: delayed events are delivered, and all objects are listed, as by kopf."""
        held, self._held = self._held, []
        for mark, arguments in held:
            self._loop.call_soon(mark, *arguments)
        for document in copy.deepcopy(self._around.store.all()):
            self._deliver(self._controller.seen, document)
        self.child_seen(cluster)

    def _deliver(self, mark: Callable[..., None], *arguments: object) -> None:
        if self._around.faults.holds_events:
            self._held.append((mark, arguments))
        elif not self._around.faults.loses_events:
            self._loop.call_soon(mark, *arguments)

    def kill(self) -> None:
        """End it like kill -9."""
        self._loop.kill()

    def failure(self) -> BaseException | None:
        """Return why a part of it has ended by itself; None while all run."""
        return next((part.exception() or RuntimeError("a worker ended") for part in self._parts if part.done()), None)
