"""The number of instances and series on a node is bounded, whatever ids clients make up."""

import sys
from itertools import pairwise

import pytest

from ottla.client_metrics import manager as module
from ottla.client_metrics.instance import ClientInstance
from ottla.client_metrics.manager import ClientMetricsManager
from ottla.client_metrics.otlp import Point
from ottla.client_metrics.pushed import ClientLabels
from ottla.config.resource_type import ConfigResourceType
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Provenance
from ottla.purgatory.steps import run_to_end
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Uuid
from ottla.wire.messages.metadata_log import ConfigRecord

LABELS = ClientLabels("id", "app", "java", "4", "127.0.0.1", "User:alice")


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def manager(clock: SimulatedClock) -> ClientMetricsManager:
    return ClientMetricsManager(clock, SeededRandom(1), receivers=("metrics",), bytes_max=1_000)


def instance(manager: ClientMetricsManager, number: int, connection: int = 1) -> ClientInstance:
    return run_to_end(manager.instance(Uuid(number.to_bytes(16, "big")), {}, connection))


def points(count: int) -> list[Point]:
    return [Point(f"m{number}", (), 1.0, is_counter=False, is_delta=False) for number in range(count)]


def test_least_recently_used_instance_is_removed_first(
    manager: ClientMetricsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INSTANCES_MAX", 3)
    first, second = instance(manager, 1), instance(manager, 2)
    instance(manager, 3)
    assert instance(manager, 1) is first

    instance(manager, 4)

    assert len(manager) == 3
    assert instance(manager, 1) is first
    assert instance(manager, 2) is not second


def test_series_of_all_clients_are_bounded_and_freed(
    manager: ClientMetricsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIES_MAX", 10)
    run_to_end(manager.receive(instance(manager, 1), LABELS, points(8)))
    run_to_end(manager.receive(instance(manager, 2), LABELS, points(8)))
    assert [len(each) for each in manager.pushed()] == [8, 2]
    assert manager.dropped_values == 6

    manager.remove_instance_of(1, Uuid((1).to_bytes(16, "big")))
    run_to_end(manager.receive(instance(manager, 2), LABELS, points(8)))

    assert [len(each) for each in manager.pushed()] == [8]


def test_instance_stays_when_another_connection_ends(manager: ClientMetricsManager) -> None:
    kept = instance(manager, 1, connection=7)

    manager.remove_instance_of(8, kept.instance_id)

    assert instance(manager, 1, connection=8) is kept


def test_push_of_an_instance_that_ended_meanwhile_takes_no_series(manager: ClientMetricsManager) -> None:
    ended = instance(manager, 1)
    receiving = manager.receive(ended, LABELS, points(40))
    next(receiving)

    manager.remove(ended.instance_id)
    run_to_end(receiving)

    other = instance(manager, 2)
    run_to_end(manager.receive(other, LABELS, points(1)))
    assert [len(each) for each in manager.pushed()] == [1]
    assert manager.series == 1


def test_silent_instances_are_removed_a_portion_at_a_time(manager: ClientMetricsManager, clock: SimulatedClock) -> None:
    for number in range(1_000):
        instance(manager, number)
    clock.advance(900_000)
    instance(manager, 1_000)
    assert len(manager) == 1_001

    left = []
    while manager.tick(clock.monotonic_ms()) == clock.monotonic_ms():
        left.append(len(manager))

    assert len(manager) == 1
    assert max(former - now for former, now in pairwise([1_001, *left, 1])) <= 300
    assert manager.next_deadline_ms() == clock.monotonic_ms() + 1_000


def test_silent_instances_with_many_series_are_removed_in_smaller_portions(
    manager: ClientMetricsManager, clock: SimulatedClock
) -> None:
    for number in range(20):
        run_to_end(manager.receive(instance(manager, number), LABELS, points(200)))
    clock.advance(900_000)

    manager.tick(clock.monotonic_ms())

    assert (len(manager), manager.series) == (18, 3_600)


@pytest.mark.parametrize(("silent_ms", "left"), [(899_999, 1), (900_000, 0)])
def test_instance_is_removed_after_three_intervals(
    manager: ClientMetricsManager, clock: SimulatedClock, silent_ms: int, left: int
) -> None:
    instance(manager, 1)
    clock.advance(silent_ms)

    manager.tick(clock.monotonic_ms())

    assert len(manager) == left


def published(manager: ClientMetricsManager, values: dict[str, str]) -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    for key, value in values.items():
        delta.replay(
            ConfigRecord(resource_type=ConfigResourceType.CLIENT_METRICS, resource_name="all", name=key, value=value)
        )
    manager.publish(delta, delta.apply(Provenance()))


def test_node_without_receivers_compiles_no_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = ClientMetricsManager(SimulatedClock(), SeededRandom(1), receivers=(), bytes_max=1_000)
    monkeypatch.setitem(sys.modules, "re2", None)  # an import of it would fail

    published(manager, {"metrics": "*", "match": "client_id=a.*"})

    assert instance(manager, 1).subscription.metrics == ()
