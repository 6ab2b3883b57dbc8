"""The operator is killed: right before each step and each write of its status, so right after all others as well.

The next one continues. A story is a sequence of requests of users. It is played once without a kill, and once for each
moment at which the operator can be killed, starting right before the reconciliation with that moment. In any case the
cluster ends as specified, no harmful step is repeated, and operations are recorded from before their first step to
their end.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from driven_operator import (
    APART,
    FIVE,
    LATEST,
    PASSES_MAX,
    THREE,
    Change,
    Operator,
    assert_as_asked,
    begin,
    manifest,
    of_image,
    pool,
    scaled,
)
from simulated_cluster import SimulatedCluster

from ottla_operator.model.conditions import Halted, Reached
from ottla_operator.model.document import Document

ON_RECORD = ("restart", "move", "add voter", "remove voter", "stop")
"""Steps of operations, which are recorded before."""
ONCE = (*ON_RECORD, "start", "unregister")
"""Steps that must not be repeated because of a kill."""


class Turn(NamedTuple):
    """The next request of a user, and the state in which the story continues."""

    ask: Callable[[Operator], None]
    is_over: Callable[[Operator], bool] = lambda operator: operator.is_settled


def asks(document: Document) -> Turn:
    """Change the spec to ``document``, and continue once it is reached."""
    return Turn(lambda operator: operator.ask(document))


def play(
    operator: Operator, story: tuple[Turn, ...], check: Callable[[Operator], None], *, is_asked: bool = False
) -> Iterator[tuple[Turn, ...]]:
    """Play ``story``, and check after each reconciliation; yield the rest of it before each reconciliation.

    ``is_asked``: the first request was made already.
    """
    for number, turn in enumerate(story):
        if number or not is_asked:
            turn.ask(operator)
        for _ in range(PASSES_MAX):
            yield story[number:]
            result = operator.survived_pass()
            check(operator)
            if result is not None and turn.is_over(operator):
                break
            operator.world.tick()
        else:
            pytest.fail(f"no end after {PASSES_MAX} passes: {operator.results[-3:]}")


def killed_everywhere(
    operator: Operator, story: tuple[Turn, ...], check: Callable[[Operator], None] = lambda _: None
) -> Iterator[Operator]:
    """Play ``story`` for each moment at which the operator can be killed; yield the operator at each end."""
    moments = 0
    for left in play(operator, story, check):
        trial = operator.fork()
        trial.one_pass()
        steps = range(len(operator.world.steps), len(trial.world.steps))
        writes = range(len(operator.writes), len(trial.writes))
        for step, write in (*((number, None) for number in steps), *((None, number) for number in writes)):
            other = operator.fork()
            other.world.kill_at = None if step is None else (step, False)
            other.kill_write_at = write
            for _ in play(other, left, check, is_asked=True):
                pass
            assert other.world.kill_at is other.kill_write_at is None, "the operator was not killed"
            moments += 1
            yield other
    assert moments, "there is a moment to be killed at"


def assert_on_record(operator: Operator) -> None:
    """Assert that every started operation was recorded, and that none started twice or lost progress."""
    for step, status in zip(operator.world.steps, operator.known, strict=True):
        operation = status.get("operation")
        if step.startswith(ON_RECORD):
            assert operation is not None, f"{step} is not recorded"
        if step.startswith("restart"):
            assert operation is not None
            nodes = operation["node"].split(",")
            assert (operation["kind"], step.removeprefix("restart ") in nodes) == ("Roll", True), operation
    recorded: dict[str, list[Document]] = {}
    for status in operator.written:
        if (operation := status.get("operation")) is not None:
            recorded.setdefault(operation["id"], []).append(operation)
    for operations in recorded.values():
        assert len({it["startedAt"] for it in operations}) == 1, f"{operations[0]} was removed meanwhile"
        assert [it["done"] for it in operations] == sorted(it["done"] for it in operations)
    assert operator.operation is None, "it is over"


def once(operator: Operator) -> Counter[str]:
    """Return how often each step was executed that must not be repeated."""
    return Counter(step for step in operator.done if step.startswith(ONCE))


WITHOUT_MORE = manifest(pool("main", 3), pool("more", 0, "broker", 10))
CHANGES = [
    pytest.param(Change(THREE, manifest(pool("main", 3), a="1"), ((0, 1, 2), (1, 2, 0), (2, 0, 1))), id="roll-3"),
    pytest.param(
        Change(FIVE, manifest(pool("main", 3), pool("more", 2, "broker", 10), a="1"), ((10, 0, 1), (11, 10, 2), (2,))),
        id="roll-5",
    ),
    pytest.param(
        Change(
            APART,
            manifest(pool("quorum", 3, "controller", 20), pool("main", 4, "broker"), a="1"),
            ((0, 1, 2), (3, 2, 1)),
        ),
        id="roll-separate-controllers",
    ),
    pytest.param(Change(THREE, LATEST, ((0, 1, 2), (1, 2, 0))), id="roll-3-then-features"),
    pytest.param(Change(LATEST, THREE, ((0, 1, 2), (1, 2, 0))), id="configs-go"),
    pytest.param(
        Change(THREE, of_image("another", THREE), ((0, 1, 2), (1, 2, 0))),
        id="roll-image",
    ),
    pytest.param(
        Change(THREE, FIVE, ((0, 1, 2), (1, 2, 0))),
        id="two-more-brokers",
    ),
    pytest.param(
        Change(FIVE, WITHOUT_MORE, ((10, 11, 0), (11, 1), (10,), (2, 0))),
        id="two-brokers-less",
    ),
    pytest.param(
        Change(
            FIVE,
            manifest(pool("main", 3), pool("more", 1, "broker", 10), a="1"),
            ((10, 11, 0), (11, 1, 2), (0, 1, 2)),
        ),
        id="one-broker-less-and-roll",
    ),
    pytest.param(
        Change(
            scaled(FIVE, throttleBytesPerSecond=1000),
            scaled(WITHOUT_MORE, throttleBytesPerSecond=1000),
            ((10, 11, 0), (11, 1), (2, 0)),
        ),
        id="two-brokers-less-throttled",
    ),
    pytest.param(
        Change(
            scaled(THREE, onScaleUp="Rebalance", throttleBytesPerSecond=1000),
            scaled(FIVE, onScaleUp="Rebalance", throttleBytesPerSecond=1000),
            ((0, 1, 2), (1, 2, 0), (2, 0, 1)),
        ),
        id="two-more-brokers-get-their-share-throttled",
    ),
    pytest.param(
        Change(manifest(pool("main", 3)), manifest(pool("main", 5)), ((0, 1, 2),)),
        id="three-controllers-become-five",
    ),
    pytest.param(
        Change(manifest(pool("main", 1)), THREE, ((0,), (0,))),
        id="one-becomes-three",
    ),
    pytest.param(
        Change(manifest(pool("main", 5)), THREE, ((3, 4, 0), (4, 1, 2), (0, 1))),
        id="five-controllers-become-three",
    ),
    pytest.param(
        Change(THREE, manifest(pool("main", 1)), ((0,), (1,), (2,))),
        id="three-become-one",
    ),
]


def factors(operator: Operator) -> list[int]:
    return [len(it.replicas) for it in operator.world.partitions.values()]


@pytest.mark.parametrize("document", [THREE, FIVE, APART], ids=["3", "5", "apart"])
def test_new_cluster_comes_up(document: Document) -> None:
    operator = Operator(SimulatedCluster(), document)
    for killed in killed_everywhere(operator, (asks(document),)):
        assert isinstance(killed.readiness, Reached)
        assert_as_asked(killed, document)


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_finished_after_a_kill_at_any_point(change: Change) -> None:
    operator = begin(SimulatedCluster(), change)
    before = factors(operator)

    others = list(killed_everywhere(operator, (asks(change.after),)))

    steps = list(operator.world.steps)
    assert isinstance(operator.one_pass().readiness, Reached)
    assert operator.world.steps == steps != [], "a cluster as specified needs no step"
    for it in (operator, *others):
        assert isinstance(it.readiness, Reached)
        assert_as_asked(it, change.after)
        assert factors(it) == before
        assert_on_record(it)
        assert once(it) == once(operator)


IN_RACKS = manifest(pool("quorum", 1, "controller", 20), pool("main", 6, "broker"))
ROLLED_BY_RACK = {**IN_RACKS, "spec": {**IN_RACKS["spec"], "rolling": {"parallelism": "Rack"}, "config": {"a": "1"}}}


def assert_one_rack_is_down_at_most(operator: Operator) -> None:
    world = operator.world
    down = [node.node_id for node in world.nodes.values() if node.is_broker and not node.is_ready]
    assert len({world.racks[node] for node in down}) <= 1, f"brokers {down} are down together"
    for partition, there in world.partitions.items():
        assert len(set(there.isr) - set(down)) >= world.min_isr, f"{partition} is below min.insync.replicas"


def test_racks_are_restarted_one_after_the_other_after_any_kill() -> None:
    world = SimulatedCluster(racks={number: f"rack-{number % 3}" for number in range(6)})
    # Broker 5 has no replica, and could be down with any other: only its rack decides when it is restarted.
    operator = begin(world, Change(IN_RACKS, IN_RACKS, ((0, 1, 2), (1, 2, 0), (3, 4, 2), (2, 3, 4))))

    others = list(killed_everywhere(operator, (asks(ROLLED_BY_RACK),), assert_one_rack_is_down_at_most))

    assert operator.restarts == ["quorum-0", "main-0", "main-3", "main-1", "main-4", "main-2", "main-5"]
    for it in (operator, *others):
        assert_as_asked(it, ROLLED_BY_RACK)
        assert_on_record(it)
        assert sorted(it.restarts) == sorted(operator.restarts), "each once"


def goes_back(operator: Operator) -> None:
    """Write the image that all nodes ran when they were last ready, once the roll is reported as halted."""
    status = operator.document["status"]
    conditions = {it["type"]: (it["status"], it["reason"]) for it in status["conditions"]}
    assert conditions["Degraded"] == ("True", "RollHalted")
    assert (status["image"], status["operation"]["node"]) == ("ottla/broker:1", "c-main-1")
    assert operator.restarts == ["main-1"], "no other node is restarted"
    operator.ask(of_image(status["image"], THREE))


@pytest.mark.parametrize("has_crashed", [True, False], ids=["crashes", "cannot-be-pulled"])
def test_roll_halts_at_the_first_node_and_rolls_back_after_any_kill(has_crashed: bool) -> None:
    world = SimulatedCluster(bad_images={"bad"}, has_crashed=has_crashed)
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2), (1, 2, 0))))
    halts = Turn(lambda it: it.ask(of_image("bad", THREE)), lambda it: isinstance(it.readiness, Halted))

    others = list(killed_everywhere(operator, (halts, Turn(goes_back))))

    for it in (operator, *others):
        assert isinstance(it.readiness, Reached)
        assert_as_asked(it, THREE)
        assert_on_record(it)
        assert it.restarts == ["main-1", "main-1"], "once to the bad image, and once back"


def is_in_phase(phase: str) -> Callable[[Operator], bool]:
    return lambda it: it.is_settled and it.document["status"].get("rebalance", {}).get("phase") == phase


REBALANCE = (
    Turn(lambda it: it.annotate("plan"), is_in_phase("Proposed")),
    Turn(lambda it: it.annotate(it.document["status"]["rebalance"]["id"]), is_in_phase("Done")),
)


def test_rebalance_is_planned_and_executed_once_after_any_kill() -> None:
    throttled = scaled(FIVE, throttleBytesPerSecond=1000)
    assignments = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1))
    operator = begin(SimulatedCluster(), Change(throttled, throttled, assignments))
    replicas = factors(operator)

    others = list(killed_everywhere(operator, REBALANCE))

    assert [step for step in operator.done if step.startswith("configure")], "moves are throttled"
    plan, record = operator.world.plan, operator.document["status"]["rebalance"]
    for it in (operator, *others):
        assert_as_asked(it, throttled)
        assert_on_record(it)
        assert once(it) == once(operator), "each partition moves once"
        assert (it.world.plan, it.document["status"]["rebalance"]) == (plan, record)
        assert {step for step in it.world.steps if step.startswith("propose")} == {f"propose {record['id']}"}
        assert factors(it) == replicas
        assert_no_second_plan_while_one_is_recorded(it)
        load = Counter(node for there in it.world.partitions.values() for node in there.replicas)
        assert max(load.values()) - min(load.values()) <= 1


def assert_no_second_plan_while_one_is_recorded(operator: Operator) -> None:
    planned = [known for step, known in zip(operator.world.steps, operator.known, strict=True) if "propose" in step]
    assert planned
    assert not any("rebalance" in status for status in planned)


HALF_WAY: list[Any] = [
    pytest.param(lambda it: any(step.startswith("configure 1") for step in it.done), id="cordoned"),
    pytest.param(lambda it: any(step.startswith("move") for step in it.done), id="moving"),
    pytest.param(lambda it: not it.world.holders() & {10, 11}, id="empty"),
    pytest.param(lambda it: "stop c-more-1" in it.done, id="stopped"),
    pytest.param(lambda it: 11 not in it.world.registered, id="unregistered"),
]


@pytest.mark.parametrize("is_half_way", HALF_WAY)
def test_cluster_grows_back_in_the_middle_of_a_drain_after_any_kill(is_half_way: Callable[[Operator], bool]) -> None:
    five, three = (scaled(it, throttleBytesPerSecond=1000) for it in (FIVE, WITHOUT_MORE))
    operator = begin(SimulatedCluster(), Change(five, five, ((10, 11, 0), (11, 1, 2), (0, 10), (2, 0))))
    replicas = factors(operator)
    shrinks = Turn(lambda it: it.ask(three), is_half_way)

    others = list(killed_everywhere(operator, (shrinks, asks(five))))

    for it in (operator, *others):
        assert isinstance(it.readiness, Reached)
        assert_as_asked(it, five)
        assert_on_record(it)
        assert factors(it) == replicas
        assert it.restarts == []
        assert max(once(it).values()) == 1, "nothing is done twice"
