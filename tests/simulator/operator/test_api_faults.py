"""The API server of a simulation fails like the real client's server, and executed requests are known."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import aiohttp
import pytest

from operator_simulation import api_faults
from operator_simulation.api import SimulatedApi
from operator_simulation.api_faults import ALL, LATE_MS_MAX, ApiFault, ApiFaults
from operator_simulation.outcome import Order
from operator_simulation.run import PlannerRun
from operator_simulation.scenarios import BY_NAME
from operator_simulation.store import Store
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.event_loop import SimulatedEventLoop
from ottla.simulator.world.random_source import SeededRandom
from ottla_operator.adapters.kubernetes.connection import REQUEST_TIMEOUT_S
from ottla_operator.errors import ApiError
from ottla_operator.model.document import Document

SECRET: Document = {"kind": "Secret", "metadata": {"name": "alice"}}
A_LONG_TIME_MS = 100_000

Serve: TypeAlias = Callable[..., "Server"]


class Server:
    """An API server with one Secret, and one client of it."""

    def __init__(self, *kinds: ApiFault) -> None:
        self.notes: list[str] = []
        self.cluster = Cluster(1, brokers=0)
        self.faults = ApiFaults(self.cluster, SeededRandom(1), frozenset(kinds), note=self.notes.append)
        self.store = Store(lambda _: None, lambda _: None, lambda _: None)
        self.store.create(SECRET)
        self.api = SimulatedApi(self.store, self.faults)
        self.loop = SimulatedEventLoop(self.cluster, "operator")
        self.faults.start()

    def outcome(self, call: Coroutine[Any, Any, object]) -> object:
        """Return what the call returns or raises."""
        task = self.loop.create_task(call)
        self.cluster.run_until(task.done, limit_ms=A_LONG_TIME_MS)
        return task.exception() or task.result()

    def close(self) -> None:
        self.faults.close()
        self.loop.kill()

    @property
    def is_deleted(self) -> bool:
        return self.store.get("Secret", "alice") is None


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server with a fault at every call."""
    monkeypatch.setattr(api_faults, "LOOKS_STRUCK_EVERY", 1)
    monkeypatch.setattr(api_faults, "CHANGES_STRUCK_EVERY", 1)
    monkeypatch.setattr(api_faults, "PAUSE_MS", 1)
    begun: list[Server] = []

    def begin(*kinds: ApiFault) -> Server:
        begun.append(Server(*kinds))
        return begun[-1]

    yield begin
    for server in begun:
        server.close()


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (ApiFault.CONFLICT, 409),
        (ApiFault.BUSY, 429),
        (ApiFault.ERROR, 500),
        (ApiFault.UNAVAILABLE, 503),
    ],
    ids=lambda it: getattr(it, "name", it),
)
def test_rejected_call_is_not_executed(serve: Serve, fault: ApiFault, status: int) -> None:
    server = serve(fault)

    raised = server.outcome(server.api.delete("Secret", "", "alice"))

    assert isinstance(raised, ApiError)
    assert raised.status == status
    assert (raised.retry_after_s is not None) == (fault is ApiFault.BUSY)
    assert not server.is_deleted


@pytest.mark.parametrize(
    ("fault", "calls"), [(ApiFault.BUSY, 4), (ApiFault.ERROR, 1), (ApiFault.LOST, 1)], ids=["busy", "failing", "lost"]
)
def test_call_that_may_have_been_executed_is_not_repeated(serve: Serve, fault: ApiFault, calls: int) -> None:
    server = serve(fault)

    assert isinstance(server.outcome(server.api.delete("Secret", "", "alice")), ApiError | OSError)

    assert server.faults.counts == {fault.value: calls}


def test_read_is_retried(serve: Serve) -> None:
    server = serve(ApiFault.UNAVAILABLE)

    assert isinstance(server.outcome(server.api.get("Secret", "", "alice")), ApiError)

    assert server.faults.counts == {ApiFault.UNAVAILABLE.value: 4}


@pytest.mark.parametrize(
    ("is_in_time", "error", "cause"),
    [(True, OSError, aiohttp.ServerDisconnectedError), (False, TimeoutError, type(None))],
    ids=["hangs-up", "says-nothing"],
)
def test_call_whose_response_is_lost_is_executed(
    serve: Serve, is_in_time: bool, error: type[OSError], cause: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_faults, "TIMEOUTS_EVERY", A_LONG_TIME_MS if is_in_time else 1)
    server = serve(ApiFault.LOST)

    found = server.outcome(server.api.delete("Secret", "", "alice"))

    assert type(found) is error
    assert isinstance(found.__cause__, cause)
    assert server.is_deleted


def test_call_may_be_executed_after_it_has_failed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_faults, "TIMEOUTS_EVERY", A_LONG_TIME_MS)
    monkeypatch.setattr(api_faults, "SLOW_MS_MAX", 1)
    server = serve(ApiFault.LATE)

    assert isinstance(server.outcome(server.api.delete("Secret", "", "alice")), OSError)

    assert not server.is_deleted
    server.cluster.run(LATE_MS_MAX + 100)
    assert server.is_deleted


def test_late_rejected_call_is_recorded(serve: Serve) -> None:
    server = serve(ApiFault.LATE)
    server.outcome(server.api.create(SECRET))
    server.cluster.run(LATE_MS_MAX + 100)

    assert server.notes[-1] == "Secret alice, unreported: 409 AlreadyExists: it is there already"


def test_call_without_a_response_times_out(serve: Serve) -> None:
    server = serve(ApiFault.TIMEOUT)

    assert isinstance(server.outcome(server.api.delete("Secret", "", "alice")), TimeoutError)

    assert not server.is_deleted
    assert server.loop.time() == pytest.approx(REQUEST_TIMEOUT_S, abs=0.1)


def test_slow_call_is_executed(serve: Serve) -> None:
    server = serve(ApiFault.SLOW)

    assert server.outcome(server.api.delete("Secret", "", "alice")) is None
    assert server.is_deleted


def test_calls_fail_while_the_server_is_unavailable(serve: Serve) -> None:
    server = serve(ApiFault.AWAY)
    server.cluster.run(5)

    found = server.outcome(server.api.delete("Secret", "", "alice"))

    assert isinstance(found, OSError)
    assert isinstance(found.__cause__, aiohttp.ClientConnectionError)
    assert server.faults.loses_events
    server.faults.stop()
    assert server.outcome(server.api.delete("Secret", "", "alice")) is None
    assert not server.faults.loses_events


@pytest.mark.parametrize(
    "change",
    [
        lambda store, topic: store.apply_status(topic, {}),
        lambda store, topic: store.patch_status(topic, {}),
        lambda store, topic: store.replace_finalizers(topic, []),
    ],
    ids=["status", "part of the status", "finalizers"],
)
def test_changed_object_is_left_alone(serve: Serve, change: Callable[[Store, Document], object]) -> None:
    store = serve().store
    (old,) = [store.put({"kind": "Topic", "metadata": {"name": "flights"}, "spec": {}})]
    store.put({"kind": "Topic", "metadata": {"name": "flights"}, "spec": {"partitions": 6}})

    with pytest.raises(ApiError, match="409"):
        change(store, old)


def test_removed_object_is_missing(serve: Serve) -> None:
    store = serve().store
    gone = store.put({"kind": "Topic", "metadata": {"name": "flights"}, "spec": {}})
    store.ask_to_go("Topic", "flights")

    with pytest.raises(ApiError, match="404"):
        store.apply_status(gone, {})


def test_one_seed_strikes_nodes_operators_and_the_api_server() -> None:
    outcome = PlannerRun(BY_NAME["roll"], 3, Order(troubles=True, api_faults=True)).run()

    assert outcome.failure is None, outcome.report()
    of_api = {it.value for it in ALL}
    assert outcome.troubles.keys() & of_api
    assert outcome.troubles.keys() - of_api
    assert outcome.replay_command.endswith("roll --seed 3 --troubles --api-faults")
