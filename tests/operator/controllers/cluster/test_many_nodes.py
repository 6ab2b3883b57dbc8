"""Simulated clusters of several nodes: after any change of the spec, the reconciler gets there by safe steps.

It does so when nodes crash meanwhile, too. Safety is asserted by the simulated cluster itself, at each step.
"""

from typing import Any

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
)
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_cluster import SimulatedCluster

from ottla_operator.model.conditions import Held, Reached, Rejected, Waiting
from ottla_operator.model.document import Document
from ottla_operator.ports.nodes import NodeState


@pytest.mark.parametrize("document", [manifest(pool("main", 1)), THREE, FIVE, APART], ids=["1", "3", "5", "apart"])
def test_new_cluster_comes_up(document: Document) -> None:
    operator = Operator(SimulatedCluster(), document)

    assert isinstance(operator.until_ready().readiness, Reached)

    assert_as_asked(operator, document)
    assert operator.document["status"]["initialControllers"] == []


def test_controllers_are_restarted_first_and_the_active_one_last() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ()))
    active = world.leader_id
    operator.ask(manifest(pool("main", 3), pool("more", 2, "broker", 10), a="1"))

    operator.until_ready()

    others = [f"main-{number}" for number in range(3) if number != active]
    assert operator.restarts == [*others, f"main-{active}", "more-0", "more-1"]


def test_roll_is_a_record_from_before_its_first_step_to_its_end() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ((0, 1, 2),)))
    assert "operation" not in operator.document["status"]
    operator.ask(manifest(pool("main", 3), pool("more", 2, "broker", 10), a="1"))
    seen: list[tuple[Any, ...]] = []

    for _ in range(PASSES_MAX):
        if isinstance(operator.one_pass().readiness, Reached):
            break
        said = operator.document["status"]["operation"]
        seen.append((said["node"], said["done"], said["total"], said["attempts"]))
        conditions = {it["type"]: it["status"] for it in operator.document["status"]["conditions"]}
        assert (conditions["Progressing"], conditions["Degraded"]) == ("True", "False"), operator.results[-1]
        world.tick()

    restarted = [f"c-{name}" for name in operator.restarts]
    assert [node for node, *_ in dict.fromkeys(seen)] == list(dict.fromkeys(node for node, *_ in seen)) == restarted
    assert {(total, attempts) for _, _, total, attempts in seen} == {(5, 1)}
    assert [done for _, done, *_ in dict.fromkeys(seen)] == [1, 2, 3, 4, 5]
    assert "operation" not in operator.document["status"]


def test_paused_roll_stops_and_continues_when_resumed() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    changed = manifest(pool("main", 3), a="1")
    operator.ask(changed)
    while not operator.restarts:
        operator.one_pass()
    operator.ask({**changed, "spec": {**changed["spec"], "paused": True}})
    for _ in range(8):
        world.tick()
        readiness = operator.one_pass().readiness

    restarted, paused = operator.restarts, operator.document["status"]["operation"]
    said = {it["type"]: it["status"] for it in operator.document["status"]["conditions"]}
    operator.ask(changed)
    operator.until_ready()

    assert isinstance(readiness, Held)
    assert restarted == ["main-1"]
    assert (paused["step"], paused["node"], paused["done"], paused["total"]) == ("Paused", "c-main-1", 1, 3)
    assert (said["Ready"], said["Paused"], said["Progressing"], said["Degraded"]) == ("False", "True", "False", "False")
    assert_as_asked(operator, changed)


def test_kubernetes_nodes_are_drained_one_by_one_during_a_roll() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2), (1, 2, 0))))
    changed, machines = manifest(pool("main", 3), a="1"), ["c-main-0", "c-main-1", "c-main-2"]
    operator.ask(changed)

    for _ in range(200):
        # kubectl drain tries again and again; what may not be stopped now is asserted where it is stopped.
        if machines and world.evict(machines[0]):
            machines.pop(0)
        operator.one_pass()
        world.tick()

    assert machines == []
    assert_as_asked(operator, changed)
    assert world.disruptions_allowed == 1


def test_lagging_node_blocks_evictions() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    (there,) = world.partitions.values()
    there.isr.remove(2)

    operator.one_pass()

    assert world.steps == ["allow 0 disruptions"]
    assert [world.evict(name) for name in sorted(world.nodes)] == [False, False, False]
    world.tick()
    operator.one_pass()
    assert world.evict("c-main-0")


def passes(operator: Operator, count: int) -> None:
    for _ in range(count):
        operator.one_pass()
        operator.world.tick()


@pytest.mark.parametrize("has_crashed", [True, False], ids=["crashes", "cannot-be-pulled"])
def test_bad_image_halts_at_the_first_node_and_rollback_restarts_only_that(has_crashed: bool) -> None:
    world = SimulatedCluster(bad_images={"bad"}, has_crashed=has_crashed)
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2), (1, 2, 0))))
    operator.ask(of_image("bad", THREE))
    passes(operator, 20)
    touched, status_then = operator.restarts, operator.document["status"]
    degraded = next(it for it in status_then["conditions"] if it["type"] == "Degraded")

    operator.ask(of_image(status_then["image"], THREE))
    operator.until_ready()

    assert touched == ["main-1"]
    assert status_then["image"] == "ottla/broker:1"
    assert (degraded["status"], degraded["reason"]) == ("True", "RollHalted")
    assert degraded["message"] == (
        "node c-main-1 does not come up with what the spec asks (CrashLoopBackOff: its last words), and no other node "
        "is restarted; correct the spec, or write image: ottla/broker:1, which all nodes ran when they were last ready "
        "(kubectl ottla undo)"
    )
    assert {it["type"] for it in status_then["conditions"] if it["status"] == "True"} == {"Degraded", "Stalled"}
    assert operator.restarts == ["main-1", "main-1"]
    assert_as_asked(operator, THREE)


@pytest.mark.parametrize("has_crashed", [True, False], ids=["crashed", "late"])
def test_halted_roll_resumes_by_itself_only_without_a_crash(has_crashed: bool) -> None:
    world = SimulatedCluster(bad_images={"bad"}, has_crashed=has_crashed)
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2), (1, 2, 0))))
    operator.ask(of_image("bad", THREE))
    passes(operator, 10)
    world.bad_images.clear()
    world.nodes["c-main-1"].state, world.nodes["c-main-1"].ticks_left = NodeState.STARTING, 1
    operator = Operator(world, operator.document)
    passes(operator, 20)
    touched = operator.restarts

    operator.ask(of_image("bad", THREE, rolling={"parallelism": "Node"}))
    operator.until_ready()

    assert touched == (["main-1"] if has_crashed else ["main-1", "main-2", "main-0"])
    assert operator.restarts == ["main-1", "main-2", "main-0"]


RACKS = manifest(pool("quorum", 3, "controller", 20), pool("main", 9, "broker"))
IN_RACKS = [(number, (number + 1) % 9, (number + 2) % 9) for number in range(9)]


@pytest.mark.parametrize(("parallelism", "together"), [("Rack", 3), ("Node", 1)])
def test_brokers_of_a_rack_are_restarted_together_by_policy(parallelism: str, together: int) -> None:
    rolling = {"parallelism": parallelism}
    world = SimulatedCluster(racks={number: f"rack-{number % 3}" for number in range(9)})
    operator = begin(world, Change(RACKS, RACKS, tuple(IN_RACKS)))
    operator.ask({**RACKS, "spec": {**RACKS["spec"], "rolling": rolling, "config": {"a": "1"}}})
    at_once = []
    for _ in range(PASSES_MAX):
        before = len(world.steps)
        if isinstance(operator.one_pass().readiness, Reached):
            break
        at_once.append(sum(step.startswith("restart c-main") for step in world.steps[before:]))
        world.tick()

    assert max(at_once) == together
    assert len(operator.restarts) == 12
    assert_as_asked(operator, RACKS)


def test_roll_waits_for_a_replica_that_lags_and_says_so() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    (there,) = world.partitions.values()
    there.isr.remove(2)
    operator.ask(manifest(pool("main", 3), a="1"))

    readiness = operator.one_pass().readiness

    assert isinstance(readiness, Waiting)
    assert readiness.reason == "RollWaiting"
    assert readiness.message == (
        "node c-main-1 has to be restarted; waiting for 1 partitions to have all replicas in sync "
        "(first: flights-0, in sync [0, 1] of [0, 1, 2])"
    )
    assert operator.restarts == []


def test_nodes_are_not_removed_below_the_replication_factor() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ((0, 1, 2, 10), (0, 1, 2))))
    operator.ask(manifest(pool("main", 3), pool("more", 0, "broker", 10), a="1"))

    readiness = operator.until_ready().readiness

    assert isinstance(readiness, Rejected)
    assert readiness.reason == "ReplicationFactorTooLarge"
    assert "topic flights has replication factor 4, and 3 brokers would be left" in readiness.message
    assert world.steps == []


def test_stopped_node_with_replicas_is_started_to_be_drained() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ((11,),)))
    world.crash("c-more-1")
    operator.ask(manifest(pool("main", 3), pool("more", 1, "broker", 10)))

    operator.until_ready()

    assert world.steps[0] == "start c-more-1"
    assert_as_asked(operator, manifest(pool("main", 3), pool("more", 1, "broker", 10)))


def test_controller_that_lost_its_volume_votes_again_under_another_directory() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    before = dict(world.voters)
    world.lose_volume("c-main-2")

    operator.until_ready()

    assert_as_asked(operator, THREE)
    assert world.voters[2] != before[2]
    assert {number: world.voters[number] for number in (0, 1)} == {number: before[number] for number in (0, 1)}


def test_voters_stay_while_others_are_behind() -> None:
    five = manifest(pool("main", 5))
    world = SimulatedCluster()
    operator = begin(world, Change(five, five, ()))
    world.crash("c-main-0")
    world.crash("c-main-1")
    operator.ask(THREE)

    readiness = operator.one_pass().readiness
    said = list(operator.results)
    operator.until_ready()

    assert isinstance(readiness, Waiting)
    assert not any(step.startswith("remove") for step in world.steps[:2]), said
    assert_as_asked(operator, THREE)


def test_pool_that_grows_again_has_its_ids_again() -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ((10, 11, 0),)))
    for document in (manifest(pool("main", 3), pool("more", 0, "broker", 10)), FIVE):
        operator.ask(document)
        operator.until_ready()

        assert_as_asked(operator, document)


def test_leaders_stay_where_they_are_if_the_spec_says_so() -> None:
    key = "auto.leader.rebalance.enable"
    document = manifest(pool("main", 3), **{key: "false"})
    world = SimulatedCluster()
    operator = begin(world, Change(document, document, ((0, 1, 2),)))
    (there,) = world.partitions.values()
    there.leader = 1

    operator.until_ready()

    assert (there.leader, world.steps) == (1, [])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_changes_with_crashes_converge_to_the_spec(data: st.DataObject) -> None:
    world = SimulatedCluster()
    operator = begin(world, Change(FIVE, FIVE, ((0, 1, 2), (10, 11, 0), (1, 2), (2, 10, 11), (11,))))
    document = FIVE
    for _ in range(data.draw(st.integers(1, 5), label="changes")):
        brokers = data.draw(st.integers(0, 4), label="brokers")
        version = data.draw(st.sampled_from("12"), label="version")
        document = manifest(pool("main", 3), pool("more", brokers, "broker", 10), version=version)
        operator.ask(document)
        for _ in range(data.draw(st.integers(0, 8), label="passes")):
            operator.one_pass()
            world.tick()
            evicted = data.draw(st.sampled_from([None, *sorted(world.nodes)]), label="evict")
            if evicted is not None:
                world.evict(evicted)
        crashed = data.draw(st.sampled_from([None, *sorted(world.nodes)]), label="crash")
        if crashed is not None and world.nodes[crashed].is_ready:
            world.crash(crashed)

    operator.until_ready()

    assert_as_asked(operator, document)


def test_dynamic_config_restarts_no_node() -> None:
    operator = begin(SimulatedCluster(), Change(THREE, THREE, ((0, 1, 2),)))
    operator.ask(manifest(pool("main", 3), **{"log.retention.ms": "5"}))
    assert isinstance(operator.until_ready().readiness, Reached)
    assert operator.world.steps == ["configs ['log.retention.ms']"]


def test_features_wait_until_every_node_runs_the_new_image() -> None:
    operator = begin(SimulatedCluster(), Change(THREE, LATEST, ((0, 1, 2),)))
    operator.ask(LATEST)
    assert isinstance(operator.until_ready().readiness, Reached)
    steps = [step for step in operator.world.steps if "disruptions" not in step]
    assert steps[-1] == "features {'metadata.version': 2}"
    assert operator.document["status"]["features"] == {"metadata.version": 2}
