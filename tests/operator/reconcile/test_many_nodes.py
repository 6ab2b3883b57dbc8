"""Clusters of several nodes, simulated: whatever the spec becomes, the reconciler gets there one safe step at a time.

It does so too when it is killed before or after any of its steps, and when nodes crash meanwhile. What is safe is
asserted by the simulated cluster itself, at each step.
"""

import asyncio
import copy
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_operator.model.conditions import Reached, Refused, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.reconcile.reconciler import Pass, founding_facts, reconcile_cluster, status

PASSES_MAX = 120
NOW = "2026-01-01T00:00:00Z"

Document = dict[str, Any]


def pool(name: str, nodes: int, roles: str = "broker controller", first: int = 0) -> Document:
    return {
        "name": name,
        "nodes": nodes,
        "roles": roles.split(),
        "firstNodeId": first,
        "storage": {"size": "1Gi"},
    }


def manifest(*pools: Document, **config: str) -> Document:
    spec = {"pools": list(pools), "config": config}
    return {"apiVersion": "ottla.dev/v1", "kind": "Cluster", "metadata": {"name": "c", "uid": "u"}, "spec": spec}


class Operator:
    """What drives the reconciler: stores the object with its status, as the API server and the state directory do."""

    def __init__(self, world: Any, document: Document) -> None:
        self.world = world
        self.document = copy.deepcopy(document)
        self.verdicts: list[str] = []

    def ask(self, document: Document) -> None:
        """Change the spec, as a user does."""
        self.document["spec"] = copy.deepcopy(document["spec"])

    def one_pass(self) -> Pass:
        """Make a pass, in a process that may be killed; whatever is stored then is stored."""
        cluster = Cluster.parse(self.document)
        if cluster.known_cluster_id is None:
            facts = asyncio.run(founding_facts(cluster, self.world))
            self.document["status"] = {**self.document.get("status", {}), **facts}
            cluster = Cluster.parse(self.document)
        result = asyncio.run(reconcile_cluster(cluster, self.world, self.world.connect))
        self.document["status"] = status(self.document, result, now=NOW)
        self.verdicts.append(f"{result.verdict.reason}: {result.verdict.message}")
        return result

    def until_ready(self) -> Pass:
        """Make passes, with time between them, until it is as the spec asks or refused."""
        for _ in range(PASSES_MAX):
            try:
                result = self.one_pass()
            except self.world.Killed:
                self.world.kill_at = None
            else:
                if not isinstance(result.verdict, Waiting):
                    return result
            self.world.tick()
        pytest.fail(f"not ready after {PASSES_MAX} passes: {self.verdicts[-3:]}")


THREE = manifest(pool("main", 3))
FIVE = manifest(pool("main", 3), pool("more", 2, "broker", 10))
APART = manifest(pool("quorum", 3, "controller", 20), pool("main", 4, "broker"))


class Change(NamedTuple):
    """From one spec to another, with partitions on the brokers that there are."""

    before: Document
    after: Document
    assignments: tuple[tuple[int, ...], ...]


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
    pytest.param(
        Change(THREE, FIVE, ((0, 1, 2), (1, 2, 0))),
        id="two-more-brokers",
    ),
    pytest.param(
        Change(FIVE, manifest(pool("main", 3), pool("more", 0, "broker", 10)), ((10, 11, 0), (11, 1), (10,), (2, 0))),
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


def assert_as_asked(operator: Operator, document: Document) -> None:
    """Assert that nodes, registrations, voters and partitions are what ``document`` asks for, and nothing else."""
    world, cluster = operator.world, Cluster.parse(document)
    ids = {number: it for it in cluster.pools for number in it.node_ids}
    running = {node.node_id: node for node in world.nodes.values() if node.is_ready}
    assert running.keys() == ids.keys()
    assert world.registered == {number: False for number, it in ids.items() if it.is_broker}
    assert set(world.voters) == {number for number, it in ids.items() if it.is_controller}
    desired = asyncio.run(world.desired(Cluster.parse(operator.document)))
    assert {node.node_id: node.revision for node in desired.nodes} == {
        number: node.revision for number, node in running.items()
    }
    for there in world.partitions.values():
        assert set(there.replicas) <= world.registered.keys()
        assert sorted(there.isr) == sorted(there.replicas)
        assert there.leader == there.replicas[0]


def begin(world: Any, change: Change) -> Operator:
    """Return an operator whose cluster is as the spec before the change asks, and has partitions."""
    operator = Operator(world, change.before)
    assert isinstance(operator.until_ready().verdict, Reached)
    world.create_topic("flights", change.assignments)
    world.steps.clear()
    return operator


def run(world: Any, change: Change) -> list[str]:
    """Make the change; return the steps that it took."""
    operator = begin(world, change)
    factors = [len(it.replicas) for it in world.partitions.values()]

    operator.ask(change.after)
    assert isinstance(operator.until_ready().verdict, Reached)

    assert_as_asked(operator, change.after)
    assert [len(it.replicas) for it in world.partitions.values()] == factors
    steps = list(world.steps)
    # Nothing is done to a cluster that is as it should be.
    assert isinstance(operator.one_pass().verdict, Reached)
    assert world.steps == steps
    return steps


@pytest.mark.parametrize("document", [manifest(pool("main", 1)), THREE, FIVE, APART], ids=["1", "3", "5", "apart"])
def test_new_cluster_comes_up(simulated_cluster: Any, document: Document) -> None:
    operator = Operator(simulated_cluster(), document)

    assert isinstance(operator.until_ready().verdict, Reached)

    assert_as_asked(operator, document)
    assert operator.document["status"]["initialControllers"] == []


@pytest.mark.parametrize("document", [THREE, FIVE, APART], ids=["3", "5", "apart"])
def test_new_cluster_comes_up_however_often_the_operator_is_killed(simulated_cluster: Any, document: Document) -> None:
    undisturbed = Operator(simulated_cluster(), document)
    undisturbed.until_ready()

    for number in range(len(undisturbed.world.steps)):
        for is_done in (False, True):
            operator = Operator(simulated_cluster(kill_at=(number, is_done)), document)
            assert isinstance(operator.until_ready().verdict, Reached)
            assert_as_asked(operator, document)


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_made_safely(simulated_cluster: Any, change: Change) -> None:
    assert run(simulated_cluster(), change)


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_finished_by_the_next_operator_wherever_one_is_killed(simulated_cluster: Any, change: Change) -> None:
    steps = run(simulated_cluster(), change)

    for number in range(len(steps)):
        for is_done in (False, True):
            world = simulated_cluster()
            operator = begin(world, change)
            world.kill_at = (number, is_done)
            operator.ask(change.after)
            assert isinstance(operator.until_ready().verdict, Reached)
            assert world.kill_at is None, "nobody was killed"
            assert_as_asked(operator, change.after)


def test_controllers_are_restarted_first_and_the_active_one_last(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(FIVE, FIVE, ()))
    active = world.leader_id
    operator.ask(manifest(pool("main", 3), pool("more", 2, "broker", 10), a="1"))

    operator.until_ready()

    restarts = [step.removeprefix("restart c-") for step in world.steps if step.startswith("restart")]
    others = [f"main-{number}" for number in range(3) if number != active]
    assert restarts == [*others, f"main-{active}", "more-0", "more-1"]


def test_roll_waits_for_a_replica_that_lags_and_says_so(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    (there,) = world.partitions.values()
    there.isr.remove(2)
    operator.ask(manifest(pool("main", 3), a="1"))

    verdict = operator.one_pass().verdict

    assert isinstance(verdict, Waiting)
    assert verdict.reason == "RollWaiting"
    assert verdict.message == (
        "node c-main-1 has to be restarted; waiting for 1 partitions to have all replicas in sync "
        "(first: flights-0, in sync [0, 1] of [0, 1, 2])"
    )
    assert not any(step.startswith("restart") for step in world.steps)


def test_nodes_that_hold_too_many_replicas_do_not_go(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(FIVE, FIVE, ((0, 1, 2, 10), (0, 1, 2))))
    operator.ask(manifest(pool("main", 3), pool("more", 0, "broker", 10), a="1"))

    verdict = operator.until_ready().verdict

    assert isinstance(verdict, Refused)
    assert verdict.reason == "ReplicationFactorTooLarge"
    assert "topic flights has replication factor 4, and 3 brokers would be left" in verdict.message
    assert world.steps == []


def test_node_that_holds_something_is_started_again_to_be_drained(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(FIVE, FIVE, ((11,),)))
    world.crash("c-more-1")
    operator.ask(manifest(pool("main", 3), pool("more", 1, "broker", 10)))

    operator.until_ready()

    assert world.steps[0] == "start c-more-1"
    assert_as_asked(operator, manifest(pool("main", 3), pool("more", 1, "broker", 10)))


def test_controller_that_lost_its_volume_votes_again_under_another_directory(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(THREE, THREE, ((0, 1, 2),)))
    before = dict(world.voters)
    world.lose_volume("c-main-2")

    operator.until_ready()

    assert_as_asked(operator, THREE)
    assert world.voters[2] != before[2]
    assert {number: world.voters[number] for number in (0, 1)} == {number: before[number] for number in (0, 1)}


def test_voters_stay_while_others_are_behind(simulated_cluster: Any) -> None:
    five = manifest(pool("main", 5))
    world = simulated_cluster()
    operator = begin(world, Change(five, five, ()))
    world.crash("c-main-0")
    world.crash("c-main-1")
    operator.ask(THREE)

    verdict = operator.one_pass().verdict
    said = list(operator.verdicts)
    operator.until_ready()

    assert isinstance(verdict, Waiting)
    assert not any(step.startswith("remove") for step in world.steps[:2]), said
    assert_as_asked(operator, THREE)


def test_pool_that_grows_again_has_its_ids_again(simulated_cluster: Any) -> None:
    world = simulated_cluster()
    operator = begin(world, Change(FIVE, FIVE, ((10, 11, 0),)))
    for document in (manifest(pool("main", 3), pool("more", 0, "broker", 10)), FIVE):
        operator.ask(document)
        operator.until_ready()

        assert_as_asked(operator, document)


def test_leaders_stay_where_they_are_if_the_spec_says_so(simulated_cluster: Any) -> None:
    key = "auto.leader.rebalance.enable"
    document = manifest(pool("main", 3), **{key: "false"})
    world = simulated_cluster()
    operator = begin(world, Change(document, document, ((0, 1, 2),)))
    (there,) = world.partitions.values()
    there.leader = 1

    operator.until_ready()

    assert (there.leader, world.steps) == (1, [])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_changes_with_crashes_between_end_as_asked(simulated_cluster: Any, data: st.DataObject) -> None:
    world = simulated_cluster()
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
        crashed = data.draw(st.sampled_from([None, *sorted(world.nodes)]), label="crash")
        if crashed is not None and world.nodes[crashed].is_ready:
            world.crash(crashed)

    operator.until_ready()

    assert_as_asked(operator, document)
