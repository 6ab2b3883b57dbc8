"""New and leaving brokers, and their reassignments: participation, cordons, throttles, and operations."""

from dataclasses import replace
from typing import Any

import pytest
from places import place_of

from ottla.client.rebalance_plan import Move, plan_id
from ottla.types import TopicPartition
from ottla_operator.model.conditions import Rejected, Underway, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.operation import OperationKind
from ottla_operator.model.scaling import RebalancePhase, RebalanceRecord, ScalingRecord
from ottla_operator.planning.cluster.draining import next_broker_to_unregister
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance
from ottla_operator.planning.cluster.scaling import ScalingPlan, needs_settings, plan_scaling
from ottla_operator.planning.steps.cluster import AlterOwnConfigs, UnregisterBroker, WriteRebalancePlan
from ottla_operator.planning.steps.topic import AlterTopicConfigs, ReassignPartitions
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.ports.nodes import NodeState, ObservedNode

RATE = {"leader.replication.throttled.rate": "5000", "follower.replication.throttled.rate": "5000"}
RATES = ("follower.replication.throttled.rate", "leader.replication.throttled.rate")
LISTS = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
CORDON = {"cordoned.log.dirs": "*"}


def desired(nodes: int, *, leaving: int = 0, asked: str = "", status: Any = None, **scaling: Any) -> DesiredCluster:
    """Return ``nodes`` brokers, the first of which is the controller as well, and ``leaving`` more that leave."""
    storage = {"size": "1Gi"}
    pools = [
        {"name": "first", "nodes": 1, "storage": storage, "firstNodeId": 100, "roles": ["controller"]},
        {"name": "main", "nodes": nodes, "storage": storage, "roles": ["broker"]},
    ]
    document = {
        "kind": "Cluster",
        "metadata": {"name": "c", "annotations": {"ottla.dev/rebalance": asked} if asked else {}},
        "spec": {"pools": pools, "scaling": scaling},
        "status": {"initialControllers": [], **(status or {})},
    }

    names = [f"c-main-{number}" for number in range(nodes, nodes + leaving)]
    return desired_cluster(Cluster.parse(document), place_of, leaving=names)


def view(*assignments: tuple[int, ...], brokers: int = 3, topic: str = "t", **more: Any) -> ClusterView:
    partitions = tuple(
        PartitionView(partition=TopicPartition(topic, number), leader=nodes[0], replicas=nodes, isr=nodes)
        for number, nodes in enumerate(assignments)
    )
    more.setdefault("own_configs", {number: {} for number in range(brokers)})
    more.setdefault("topic_throttles", {topic: {}})
    return ClusterView(
        cluster_id="c",
        brokers=dict.fromkeys(range(brokers), False),
        controller_id=100,
        voters=(),
        partitions=partitions,
        **more,
    )


def plan(asked: DesiredCluster, seen: ClusterView, lookup: ObservedRebalance | None = None) -> ScalingPlan:
    nodes = {
        node.name: ObservedNode(name=node.name, state=NodeState.READY, revision=node.revision) for node in asked.nodes
    }
    found = plan_scaling(asked, nodes, seen, lookup or ObservedRebalance(can_plan=True))
    assert isinstance(found, ScalingPlan)
    return found


def moving(seen: ClusterView, number: int, *, adding: tuple[int, ...], removing: tuple[int, ...]) -> ClusterView:
    partitions = list(seen.partitions)
    there = partitions[number]
    replicas = (*adding, *(node for node in there.replicas if node not in adding))
    partitions[number] = replace(there, replicas=replicas, adding=adding, removing=removing)
    return replace(seen, partitions=tuple(partitions))


class TestLeaving:
    def test_broker_is_cordoned_and_throttled_before_it_is_drained(self) -> None:
        asked = desired(2, leaving=1, throttleBytesPerSecond=5000, status={"scaling": {"brokers": [0, 1, 2]}})

        found = plan(asked, view((2, 0), (0, 1)))

        assert found.steps == (
            AlterOwnConfigs(2, CORDON, ()),
            AlterOwnConfigs(0, RATE, ()),
            AlterOwnConfigs(1, RATE, ()),
            AlterOwnConfigs(2, RATE, ()),
            AlterTopicConfigs("t", dict(zip(LISTS, ("0:1", "0:0,0:2"), strict=True)), ()),
            ReassignPartitions({TopicPartition("t", 0): (1, 0)}),
        )
        assert found.before.record == ScalingRecord(
            brokers=(0, 1), cordoned=(2,), throttled_brokers=(0, 1, 2), throttled_topics=("t",)
        )

    def test_what_is_set_already_is_not_set_again(self) -> None:
        asked = desired(2, leaving=1, status={"scaling": {"brokers": [0, 1], "cordoned": [2]}})
        seen = moving(view((2, 0), own_configs={2: CORDON}), 0, adding=(1,), removing=(2,))

        assert plan(asked, seen).steps == ()

    def test_throttle_is_lifted_when_everything_has_moved(self) -> None:
        throttle = {"brokers": [0, 1, 2], "topics": ["t", "gone"]}
        status = {"scaling": {"brokers": [0, 1], "cordoned": [2], "throttle": throttle}}
        asked = desired(2, leaving=1, throttleBytesPerSecond=5000, status=status)

        found = plan(asked, view((1, 0), own_configs={2: {**CORDON, **RATE}}))

        assert found.steps == (
            AlterTopicConfigs("t", {}, LISTS),
            *(AlterOwnConfigs(number, {}, RATES) for number in range(3)),
        )
        assert found.before.record.throttled_brokers == (0, 1, 2)
        assert found.after.record == ScalingRecord(brokers=(0, 1), cordoned=(2,))

    def test_rate_of_a_missing_broker_stays_recorded_until_it_returns(self) -> None:
        status = {"scaling": {"brokers": [0, 1], "throttle": {"brokers": [2], "topics": []}}}

        gone = plan(desired(2, status=status), view((1, 0), brokers=2))
        assert (gone.steps, gone.after.record.throttled_brokers) == ((), (2,))

        back = plan(desired(3, status=status), view((1, 0), own_configs={0: {}, 1: {}, 2: RATE}))
        assert back.steps == (AlterOwnConfigs(2, {}, RATES),)
        assert back.after.record.throttled_brokers == ()

    @pytest.mark.parametrize(("leaving", "expected"), [(1, None), (0, UnregisterBroker(2))], ids=["runs", "stopped"])
    def test_broker_that_has_to_run_is_not_unregistered(self, leaving: int, expected: UnregisterBroker | None) -> None:
        seen = view((1, 0))
        seen = replace(seen, brokers={**seen.brokers, 2: True})

        assert next_broker_to_unregister(desired(2, leaving=leaving), {}, seen) == expected

    def test_foreign_settings_stay(self) -> None:
        asked = desired(2, leaving=1, throttleBytesPerSecond=5000, status={"scaling": {"brokers": [0, 1]}})
        seen = view(
            (2, 0),
            own_configs={0: {RATES[0]: "7"}, 1: {}, 2: {"cordoned.log.dirs": "/d"}},
            topic_throttles={"t": {LISTS[0]: "*"}},
        )

        found = plan(asked, seen)

        assert found.steps == (
            AlterOwnConfigs(1, RATE, ()),
            AlterOwnConfigs(2, RATE, ()),
            ReassignPartitions({TopicPartition("t", 0): (1, 0)}),
        )
        assert found.before.record == ScalingRecord(brokers=(0, 1), throttled_brokers=(1, 2))

    def test_pool_that_grows_again_in_the_middle_gets_partitions_again(self) -> None:
        asked = desired(3, status={"scaling": {"brokers": [0, 1], "cordoned": [2, 7]}})

        found = plan(asked, view((2, 0)))

        assert found.steps == (AlterOwnConfigs(2, {}, ("cordoned.log.dirs",)),)
        # A broker that does not run keeps its cordon, and its place in the record.
        assert found.after.record == ScalingRecord(brokers=(0, 1, 2), cordoned=(7,))

    def test_it_is_an_operation_that_counts_partitions(self) -> None:
        asked = desired(2, leaving=1, status={"scaling": {"brokers": [0, 1], "cordoned": [2]}})
        seen = moving(view((2, 0), (2, 1), own_configs={2: CORDON}), 0, adding=(1,), removing=(2,))

        found = plan(asked, seen)

        assert found.operation is not None
        assert (found.operation.kind, found.operation.left) == (OperationKind.SCALE_DOWN, 2)
        assert (found.operation.nodes, found.operation.blocked_by) == (("c-main-2",), ("t-0",))

    def test_partition_stays_on_two_racks(self) -> None:
        asked = desired(4, leaving=1, status={"scaling": {"brokers": [0, 1, 2, 3]}})
        racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "b"}

        found = plan(asked, view((0, 4), (2, 3), (2, 3), brokers=5, racks=racks))

        assert ReassignPartitions({TopicPartition("t", 0): (0, 2)}) in found.steps

    def test_too_few_brokers_for_a_topic_are_rejected_first(self) -> None:
        found = plan_scaling(desired(1, leaving=2), {}, view((0, 1)), ObservedRebalance())

        assert isinstance(found, Rejected)
        assert found.reason == "ReplicationFactorTooLarge"


class TestComing:
    NEW = {"scaling": {"brokers": [0, 1]}}

    def test_all_brokers_of_a_new_cluster_take_part(self) -> None:
        found = plan(desired(3, onScaleUp="None"), view((0,)))

        assert (found.steps, found.after.record) == ((), ScalingRecord(brokers=(0, 1, 2)))

    def test_new_brokers_take_part_when_they_are_there(self) -> None:
        joining = plan(desired(4, status=self.NEW), view((0,)))
        joined = plan(desired(4, status=self.NEW), view((0,), brokers=4))

        assert joining.operation is not None
        assert (joining.operation.kind, joining.operation.nodes) == (OperationKind.SCALE_UP, ("c-main-3",))
        assert joining.after.record.brokers == (0, 1, 2)
        assert (joined.operation, joined.after.record.brokers) == (None, (0, 1, 2, 3))

    def test_with_none_they_are_cordoned_until_a_partition_is_moved_there(self) -> None:
        asked = desired(3, onScaleUp="None", status=self.NEW)

        deferred_objects = plan(asked, view((0, 1)))
        moved = plan(desired(3, onScaleUp="None", status=deferred_objects.after.facts()), view((0, 2)))

        assert deferred_objects.steps == (AlterOwnConfigs(2, CORDON, ()),)
        assert deferred_objects.after.record == ScalingRecord(brokers=(0, 1), cordoned=(2,))
        assert moved.steps == (AlterOwnConfigs(2, {}, ("cordoned.log.dirs",)),)
        assert moved.after.record == ScalingRecord(brokers=(0, 1, 2))

    def test_with_rebalance_a_plan_is_made_once_all_have_joined_and_carried_out(self) -> None:
        asked = desired(3, onScaleUp="Rebalance", status=self.NEW)
        seen = view((0, 1), (1, 0), (0, 1))

        waits = plan(asked, replace(seen, brokers={0: False, 1: False, 2: True}))
        made = plan(asked, seen)
        (step,) = made.steps
        assert isinstance(step, WriteRebalancePlan)
        carried_out = plan(
            desired(3, onScaleUp="Rebalance", status=made.after.facts()),
            seen,
            ObservedRebalance(can_plan=True, stored=step.plan.moves),
        )

        assert waits.steps == ()
        assert isinstance(carried_out.steps[0], ReassignPartitions)
        assert carried_out.after.record.brokers == (0, 1)
        targets = {**{it.partition: it.replicas for it in seen.partitions}, **carried_out.steps[0].targets}
        done = plan(
            desired(3, onScaleUp="Rebalance", status=carried_out.after.facts()),
            view(*targets.values()),
            ObservedRebalance(can_plan=True, stored=step.plan.moves),
        )
        assert done.after.rebalance is not None
        assert done.after.rebalance.phase is RebalancePhase.DONE
        assert done.after.record.brokers == (0, 1, 2)


MOVES = (Move(TopicPartition("t", 0), (0, 1), (2, 1)), Move(TopicPartition("t", 1), (0, 1), (1, 2)))
ID = plan_id(MOVES)
STORED = ObservedRebalance(can_plan=True, stored=MOVES)


def proposed(phase: str = "Proposed", request: str = "plan") -> dict[str, Any]:
    return {"scaling": {"brokers": [0, 1, 2]}, "rebalance": {"id": ID, "request": request, "phase": phase}}


class TestRebalance:
    def test_plan_is_made_once_for_one_request(self) -> None:
        seen = view((0, 1), (0, 1), (0, 1))
        first = plan(desired(3, asked="plan", status={"scaling": {"brokers": [0, 1, 2]}}), seen)

        (step,) = first.steps
        assert isinstance(step, WriteRebalancePlan)
        stored = ObservedRebalance(can_plan=True, stored=step.plan.moves)
        assert first.before.rebalance is None, "a plan is recorded only after it can be read"
        assert first.after.rebalance == RebalanceRecord(id=step.plan.id, request="plan", summary=step.plan.summary)
        assert plan(desired(3, asked="plan", status=first.after.facts()), seen, stored).steps == ()
        assert plan(desired(3, asked="plan once more", status=first.after.facts()), seen, stored).steps != ()

    def test_removed_plan_is_created_again(self) -> None:
        found = plan(desired(3, asked="plan", status=proposed()), view((0, 1), (0, 1)))

        assert [type(step) for step in found.steps] == [WriteRebalancePlan]

    def test_plan_in_an_unknown_phase_is_ignored(self) -> None:
        found = plan(desired(3, asked="plan", status=proposed("Paused")), view((0, 1), (0, 1)), STORED)

        assert [type(step) for step in found.steps] == [WriteRebalancePlan]

    def test_same_annotation_is_a_new_request_after_its_removal(self) -> None:
        gone = plan(desired(3, status=proposed("Done")), view((0, 1)))
        assert gone.after.rebalance is not None
        assert gone.after.rebalance.request == ""

        again = plan(desired(3, asked="plan", status=gone.after.facts()), view((0, 1), (0, 1)))

        assert [type(step) for step in again.steps] == [WriteRebalancePlan]

    def test_id_starts_the_moves(self) -> None:
        found = plan(desired(3, asked=ID, status=proposed()), view((0, 1), (0, 1)), STORED)

        assert found.steps == (ReassignPartitions({it.partition: it.after for it in MOVES}),)
        assert found.operation is not None
        assert (found.operation.kind, found.operation.left) == (OperationKind.REBALANCE, 2)
        assert isinstance(found.obstacle, Underway)

    def test_remaining_moves_continue_after_a_kill(self) -> None:
        found = plan(desired(3, asked=ID, status=proposed("Running", "")), view((2, 1), (0, 1)), STORED)

        assert found.steps == (ReassignPartitions({MOVES[1].partition: MOVES[1].after}),)

    @pytest.mark.parametrize("asked", ["", "r000000000000", "stop"])
    def test_any_other_annotation_starts_no_more_moves(self, asked: str) -> None:
        found = plan(desired(3, asked=asked, status=proposed("Running", "")), view((2, 1), (0, 1)), STORED)

        assert found.steps == ()
        assert found.after.rebalance is not None
        assert found.after.rebalance.phase is RebalancePhase.STOPPED

    def test_id_again_continues_a_stopped_plan(self) -> None:
        found = plan(desired(3, asked=ID, status=proposed("Stopped", "")), view((2, 1), (0, 1)), STORED)

        assert [type(step) for step in found.steps] == [ReassignPartitions]

    @pytest.mark.parametrize(
        ("seen", "lookup", "words"),
        [
            pytest.param(view((0, 1)), STORED, "t-1 no longer exists; request another plan", id="topic-changed"),
            pytest.param(view((0, 1), (1, 0)), STORED, "t-1 is on 1, 0 now", id="moved-elsewhere"),
            pytest.param(view((0, 1), (0, 1)), ObservedRebalance(can_plan=True), "was removed or changed", id="gone"),
            pytest.param(
                view((0, 1), (0, 1)),
                ObservedRebalance(can_plan=True, stored=MOVES[:1]),
                "was removed or changed",
                id="changed-by-hand",
            ),
        ],
    )
    def test_plan_that_does_not_fit_says_so(self, seen: ClusterView, lookup: ObservedRebalance, words: str) -> None:
        found = plan(desired(3, asked=ID, status=proposed()), seen, lookup)

        assert found.steps == ()
        assert found.after.rebalance is not None
        assert found.after.rebalance.phase is RebalancePhase.STALE
        assert words in found.after.rebalance.message

    def test_at_most_a_hundred_move_at_a_time(self) -> None:
        many = tuple(Move(TopicPartition("t", number), (0, 1), (2, 1)) for number in range(150))
        status = {**proposed(), "rebalance": {"id": plan_id(many), "phase": "Proposed"}}

        found = plan(
            desired(3, asked=plan_id(many), status=status),
            view(*([(0, 1)] * 150)),
            ObservedRebalance(can_plan=True, stored=many),
        )

        (step,) = found.steps
        assert isinstance(step, ReassignPartitions)
        assert len(step.targets) == 100

    def test_restart_that_is_due_comes_first(self) -> None:
        asked, seen = desired(3, asked=ID, status=proposed()), view((0, 1), (0, 1))
        nodes = {node.name: ObservedNode(name=node.name, state=NodeState.READY, revision="old") for node in asked.nodes}

        found = plan_scaling(asked, nodes, seen, STORED)

        assert isinstance(found, ScalingPlan)
        assert found.steps == ()

    def test_nothing_is_planned_while_a_broker_is_missing_or_leaves(self) -> None:
        status = {"scaling": {"brokers": [0, 1, 2]}}
        fenced = replace(view((0, 1), (0, 1)), brokers={0: False, 1: False, 2: True})

        assert plan(desired(3, asked="plan", status=status), fenced).steps == ()
        leaving = plan(desired(2, leaving=1, asked="plan", status=status), view((2, 1), own_configs={}))
        assert [type(step) for step in leaving.steps] == [ReassignPartitions]

    def test_nothing_is_planned_without_a_plan_store(self) -> None:
        asked = desired(3, asked="plan", status={"scaling": {"brokers": [0, 1, 2]}})

        assert plan(asked, view((0, 1), (0, 1)), ObservedRebalance()).steps == ()


def test_reassignments_of_administrators_are_an_operation_and_throttled() -> None:
    asked = desired(3, throttleBytesPerSecond=5000, status={"scaling": {"brokers": [0, 1, 2]}})
    seen = moving(view((0,)), 0, adding=(1,), removing=())

    found = plan(asked, seen)

    assert found.operation is not None
    assert (found.operation.kind, found.operation.left) == (OperationKind.REASSIGNMENT, 1)
    assert found.obstacle == Underway("Reassigning", "reassigning 1 partitions")
    assert AlterOwnConfigs(1, RATE, ()) in found.steps


def test_settings_of_an_idle_cluster_are_not_read() -> None:
    status = {"scaling": {"brokers": [0, 1, 2]}, "rebalance": {"id": ID, "phase": "Done"}}

    assert not needs_settings(desired(3, throttleBytesPerSecond=5000, status=status), view((0, 1)))
    assert needs_settings(desired(2, leaving=1, status=status), view((0, 1)))
    assert isinstance(plan(desired(2, leaving=1), moving(view((2,)), 0, adding=(0,), removing=(2,))).obstacle, Waiting)


class TestInternalTopics:
    """Brokers of a smaller cluster could not give internal topics the replicas that they have by default."""

    def targets(self, found: ScalingPlan) -> dict[int, tuple[int, ...]]:
        reassigned = [step.targets for step in found.steps if isinstance(step, ReassignPartitions)]
        return {it.partition: target for targets in reassigned for it, target in targets.items()}

    def test_cluster_that_has_grown_gives_them_more_replicas_as_a_throttled_operation(self) -> None:
        asked = desired(3, throttleBytesPerSecond=5000, status={"scaling": {"brokers": [0, 1, 2]}})
        seen = view((0,), (0,), (0,), topic="__consumer_offsets")

        found = plan(asked, seen)

        assert self.targets(found) == {0: (1, 0, 2), 1: (2, 0, 1), 2: (0, 1, 2)}
        assert [type(step) for step in found.steps[:3]] == [AlterOwnConfigs] * 3
        assert found.operation is not None
        assert (found.operation.kind, found.operation.left) == (OperationKind.REASSIGNMENT, 3)
        assert needs_settings(asked, seen)

    def test_number_of_replicas_is_that_of_the_brokers_or_of_the_config(self) -> None:
        internal = view((0,), (1,), brokers=2, topic="__transaction_state")
        configured = replace(desired(3).cluster, config={"transaction.state.log.replication.factor": "2"})

        assert self.targets(plan(desired(2), internal)) == {0: (0, 1), 1: (1, 0)}
        three = view((2,), topic="__transaction_state")
        assert self.targets(plan(replace(desired(3), cluster=configured), three)) == {0: (2, 0)}
        assert plan(desired(3), view((0, 1, 2), topic="__share_group_state")).steps == ()
        assert plan(desired(3), view((0,))).steps == (), "a topic of a user"

    def test_they_wait_for_a_drain_a_broker_and_their_own_moves(self) -> None:
        seen = view((0,), topic="__consumer_offsets")

        assert self.targets(plan(desired(2, leaving=1), view((2,), topic="__consumer_offsets"))) == {0: (0,)}
        assert self.targets(plan(desired(3), replace(seen, brokers={0: False, 1: True, 2: True}))) == {}
        assert self.targets(plan(desired(3), moving(seen, 0, adding=(1,), removing=()))) == {}

    def test_brokers_that_get_nothing_yet_get_none_of_them(self) -> None:
        asked = desired(3, onScaleUp="None", status={"scaling": {"brokers": [0]}})

        assert self.targets(plan(asked, view((0,), topic="__consumer_offsets"))) == {}
