"""The number of instances and series on a node is bounded, whatever ids clients make up."""

import sys

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
def manager() -> ClientMetricsManager:
    return ClientMetricsManager(SimulatedClock(), SeededRandom(1), receivers=("metrics",), bytes_max=1_000)


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
    assert manager.dropped_series == 6

    manager.on_disconnected(Uuid((1).to_bytes(16, "big")), 1)
    run_to_end(manager.receive(instance(manager, 2), LABELS, points(8)))

    assert [len(each) for each in manager.pushed()] == [8]


def test_instance_stays_when_another_connection_ends(manager: ClientMetricsManager) -> None:
    kept = instance(manager, 1, connection=7)

    manager.on_disconnected(kept.instance_id, 8)

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
