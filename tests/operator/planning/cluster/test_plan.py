"""The plan for a Cluster: publishing, starts, restarts, stops, and waits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Halted, Waiting
from ottla_operator.model.maintenance import WindowState
from ottla_operator.model.manifest import Cluster, Metadata, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.operation import Operation, OperationKind, follow
from ottla_operator.model.storage import Storage
from ottla_operator.planning.cluster import plan as cluster_plan
from ottla_operator.planning.cluster.draining import leaving_nodes
from ottla_operator.planning.cluster.plan import SUB_PLANNERS, PartialPlan, plan_cluster
from ottla_operator.planning.cluster.rolling import RollTimings, Wait, next_restarts
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.cluster import Publish, RestartNode, StartNode, StopNode
from ottla_operator.ports.cluster_view import ClusterView, PartitionView, QuorumMember
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

PLACE = Place(
    listen_host="", client_host="h", client_port=1, controller_port=2, admin_port=3, log_directory="/data"
)  # fmt: skip


def cluster_of(nodes: int) -> DesiredCluster:
    pool = Pool(name="main", nodes=nodes, storage=Storage.parse({"size": "1Gi"}))
    cluster = Cluster(
        metadata=Metadata(kind="Cluster", name="demo"),
        image=None,
        pools=(pool,),
        config={},
        annotations={},
        known_cluster_id="c",
    )
    return DesiredCluster(cluster=cluster, nodes=tuple(node(number) for number in range(nodes)))


def node(number: int) -> DesiredNode:
    return DesiredNode(
        node_id=number, pool="main", name=f"demo-main-{number}", place=PLACE, properties="", revision="new"
    )


def seen(number: int, state: NodeState = NodeState.READY, revision: str | None = "new", **more: str) -> ObservedNode:
    return ObservedNode(name=f"demo-main-{number}", state=state, revision=revision, **more)


def observed(*nodes: ObservedNode, outdated: tuple[str, ...] = ()) -> ObservedCluster:
    return ObservedCluster(outdated=outdated, nodes={it.name: it for it in nodes})


def whole(brokers: int) -> ClusterView:
    return ClusterView(
        cluster_id="c",
        brokers=dict.fromkeys(range(brokers), False),
        controller_id=0,
        voters=(QuorumMember(node_id=0, directory_id="d", is_caught_up=True),),
    )


def test_cluster_as_specified_needs_nothing() -> None:
    assert plan_cluster(cluster_of(1), observed(seen(0))) == Plan()


def test_outdated_configuration_is_published_before_anything_starts() -> None:
    desired = cluster_of(1)

    plan = plan_cluster(desired, observed(outdated=("a", "b")))

    assert plan.steps == (Publish(desired, ("a", "b")), StartNode(node(0)))
    assert plan.obstacle == Waiting("StartingNode", "node demo-main-0 is being started")


@pytest.mark.parametrize("there", [(), (seen(0, NodeState.STOPPED, None),)], ids=["never-ran", "stopped"])
def test_node_that_does_not_run_is_started(there: tuple[ObservedNode, ...]) -> None:
    assert plan_cluster(cluster_of(1), observed(*there)).steps == (StartNode(node(0)),)


def test_node_with_an_old_configuration_is_restarted() -> None:
    plan = plan_cluster(cluster_of(1), observed(seen(0, revision="old")))

    assert plan.steps == (RestartNode(node(0), "its configuration changed"),)
    assert isinstance(plan.obstacle, Waiting)
    assert plan.obstacle.reason == "RestartingNode"


def test_one_node_is_restarted_at_a_time() -> None:
    plan = plan_cluster(
        cluster_of(3), observed(*(seen(number, revision="old") for number in range(3))), whole(brokers=3)
    )

    assert plan.steps == (RestartNode(node(1), "its configuration changed"),)


@pytest.mark.parametrize("state", [NodeState.STARTING, NodeState.FAILED])
def test_no_node_is_restarted_while_another_is_starting(state: NodeState) -> None:
    plan = plan_cluster(cluster_of(2), observed(seen(0, revision="old"), seen(1, state)))

    assert plan.steps == ()


@pytest.mark.parametrize("state", [NodeState.STARTING, NodeState.FAILED])
def test_broken_node_gets_its_new_configuration_first(state: NodeState) -> None:
    plan = plan_cluster(cluster_of(2), observed(seen(0, revision="old"), seen(1, state, "old")))

    assert plan.steps == (RestartNode(node(1), f"it is {state.value} with an old configuration"),)


def with_fenced(view: ClusterView, *node_ids: int, caught_up: bool = True) -> ClusterView:
    voters = tuple(
        QuorumMember(node_id=number, directory_id="d", is_caught_up=caught_up or number not in node_ids)
        for number in range(3)
    )
    return replace(view, brokers={**view.brokers, **dict.fromkeys(node_ids, True)}, voters=voters)


@pytest.mark.parametrize(
    ("other", "view", "waits_for"),
    [
        pytest.param(NodeState.STARTING, None, "waiting for node demo-main-0: is starting", id="no-view"),
        pytest.param(NodeState.UNREADY, None, "waiting for node demo-main-0: is unready", id="no-view-two-unready"),
        pytest.param(NodeState.READY, None, "waiting for brokers to respond", id="no-view-others-ready"),
        pytest.param(NodeState.STARTING, whole(3), "waiting for node demo-main-0: is starting", id="in-use"),
        pytest.param(
            NodeState.STARTING, with_fenced(whole(3), 2), "waiting for node demo-main-0: is starting", id="fenced-votes"
        ),
        pytest.param(
            NodeState.READY,
            replace(
                with_fenced(whole(3)),
                partitions=(PartitionView(partition=TopicPartition("t", 0), leader=2, replicas=(0, 2), isr=(2,)),),
            ),
            "waiting for 1 partitions to have all replicas in sync (first: t-0, in sync [2] of [0, 2])",
            id="other-lags",
        ),
        pytest.param(NodeState.READY, with_fenced(whole(3)), None, id="nothing-is-missing"),
        pytest.param(
            NodeState.STARTING,
            with_fenced(whole(3), 2, caught_up=False),
            "waiting for node demo-main-0: is starting",
            id="hangs",
        ),
        pytest.param(NodeState.READY, with_fenced(whole(3), 2, caught_up=False), None, id="hangs-others-ready"),
        pytest.param(
            NodeState.READY,
            replace(
                with_fenced(whole(3)),
                partitions=(PartitionView(partition=TopicPartition("t", 0), leader=0, replicas=(0, 2), isr=(0,)),),
            ),
            None,
            id="only-itself-lags",
        ),
    ],
)
def test_node_that_has_served_is_not_restarted_beside_another(
    other: NodeState, view: ClusterView | None, waits_for: str | None
) -> None:
    there = observed(seen(0, other), seen(1), seen(2, NodeState.UNREADY, "old"))

    plan = plan_cluster(cluster_of(3), there, view)

    restarts = [step for step in plan.steps if isinstance(step, RestartNode)]
    if waits_for is None:
        assert restarts == [RestartNode(node(2), "it is unready with an old configuration")]
    else:
        assert restarts == []
        waiting = next_restarts(cluster_of(3), there.nodes, view)
        assert isinstance(waiting, Wait)
        assert waiting.obstacle.message == f"node demo-main-2 has an old configuration and is unready; {waits_for}"


def test_nodes_that_hang_are_restarted_one_after_the_other() -> None:
    five, view = cluster_of(5), with_fenced(whole(5), 3, 4)
    others, hung = [seen(it) for it in range(3)], [seen(it, NodeState.UNREADY, "old") for it in (3, 4)]

    assert plan_cluster(five, observed(*others, *hung), view).steps == (
        RestartNode(node(3), "it is unready with an old configuration"),
    )
    assert plan_cluster(five, observed(*others, seen(3, NodeState.STARTING), hung[1]), view).steps == ()


def test_only_node_is_restarted_although_it_has_served() -> None:
    plan = plan_cluster(cluster_of(1), observed(seen(0, NodeState.UNREADY, "old")))

    assert plan.steps == (RestartNode(node(0), "it is unready with an old configuration"),)


def test_nodes_that_never_came_up_are_restarted_one_after_the_other() -> None:
    """None becomes ready before enough of them have the new configuration: the first is not waited for."""
    there = observed(seen(0, NodeState.STARTING), *(seen(it, NodeState.STARTING, "old") for it in (1, 2)))

    assert plan_cluster(cluster_of(3), there).steps == (
        RestartNode(node(1), "it is starting with an old configuration"),
    )


def test_broken_node_that_is_not_needed_does_not_wait_for_one_that_is() -> None:
    there = observed(seen(0, NodeState.UNREADY, "old"), seen(1), seen(2, NodeState.FAILED, "old"))

    assert plan_cluster(cluster_of(3), there).steps == (RestartNode(node(2), "it is failed with an old configuration"),)


def test_node_whose_revision_is_unknown_is_left_to_come_up() -> None:
    plan = plan_cluster(cluster_of(1), observed(seen(0, NodeState.STARTING, None)))

    assert plan.steps == ()


@pytest.mark.parametrize(
    ("there", "obstacle"),
    [
        pytest.param(seen(0, NodeState.STARTING), Waiting("NodeNotReady", "node demo-main-0: starting"), id="silent"),
        pytest.param(
            seen(0, NodeState.FAILED, reason="CrashLoopBackOff", message="no such key"),
            Waiting("CrashLoopBackOff", "node demo-main-0: no such key"),
            id="with-words",
        ),
    ],
)
def test_waiting_says_for_which_node_and_why(there: ObservedNode, obstacle: Waiting) -> None:
    assert plan_cluster(cluster_of(1), observed(there)) == Plan(obstacle=obstacle)


def test_surplus_node_is_stopped_until_its_host_does_not_run_it() -> None:
    there = observed(seen(0), seen(1), seen(2, NodeState.STOPPED, None))

    assert plan_cluster(cluster_of(1), there) == Plan((StopNode("demo-main-1"), StopNode("demo-main-2")))
    assert plan_cluster(cluster_of(1), observed(seen(0))) == Plan()


def test_stopping_node_is_waited_for_until_it_has_ended() -> None:
    ending = seen(1, NodeState.STOPPING, None, reason="PodTerminating", message="its pod is shutting down")
    registered = replace(whole(1), brokers={0: False, 1: True})

    plan = plan_cluster(cluster_of(1), observed(seen(0), ending), registered)

    assert plan.steps == ()
    assert plan.obstacle == Waiting("PodTerminating", "node demo-main-1: its pod is shutting down")
    assert leaving_nodes(cluster_of(1).cluster, {"demo-main-1": ending}, None) == ()


@pytest.mark.parametrize("state", [NodeState.READY, NodeState.STOPPED])
def test_nodes_beyond_the_spec_stay_while_no_broker_responds(state: NodeState) -> None:
    there = observed(seen(0), seen(1, state))

    assert leaving_nodes(cluster_of(1).cluster, there.nodes, None) == ("demo-main-1",)
    assert leaving_nodes(cluster_of(1).cluster, there.nodes, whole(2)) == ()


def test_ready_nodes_are_counted() -> None:
    assert observed(seen(0), seen(1, NodeState.STARTING), seen(2)).ready_nodes == 2


def test_steps_print_as_what_they_do(topic_manifest: Callable[..., dict[str, Any]]) -> None:
    assert str(Publish(cluster_of(1), ("Service/a", "Service/b"))) == "publish Service/a, Service/b"
    assert str(StartNode(node(0))) == "start node demo-main-0"
    assert str(RestartNode(node(0), "why")) == "restart node demo-main-0: why"
    assert str(StopNode("demo-main-0")) == "stop node demo-main-0"


def test_order_of_sub_planners_is_the_priority() -> None:
    assert [name for name, _ in SUB_PLANNERS] == [
        "reject maintenance windows",
        "report rejected nodes",
        "publish configuration",
        "wait for nodes",
        "stop surplus nodes",
        "start missing nodes",
        "remove volumes",
        "change voters",
        "scale and reassign",
        "unregister brokers",
        "elect preferred leaders",
        "alter broker configs",
        "restart nodes",
        "finalize features",
    ]


def operation_to(target: str, **more: Any) -> Operation:
    return Operation(kind=OperationKind.ROLL, target=target, step="Moving", message="", **more)


@pytest.fixture
def plan_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Return a function from the results of sub-planners, in their order, to the plan."""

    def plan(*parts: PartialPlan, **given: Any) -> Plan:
        planners = tuple((str(number), lambda *_, part=part: part) for number, part in enumerate(parts))
        monkeypatch.setattr(cluster_plan, "SUB_PLANNERS", planners)
        return plan_cluster(cluster_of(1), observed(seen(0)), **given)

    return plan


def test_steps_are_taken_and_obstacles_reported_in_the_order_of_sub_planners(plan_by: Callable[..., Plan]) -> None:
    one, two, three = (StopNode(f"demo-main-{number}") for number in range(3))
    first, second = Waiting("First", ""), Waiting("Second", "")

    found = plan_by(
        PartialPlan(steps=(two,)),
        PartialPlan(steps=(one,), obstacles=(second,)),
        PartialPlan(steps=(three,), obstacles=(first,)),
    )

    assert found.steps == (two, one, three)
    assert found.obstacle == second


def test_obstacle_that_overrides_others_is_reported(plan_by: Callable[..., Plan]) -> None:
    usual, roll_obstacle = Waiting("StartingNode", ""), Waiting("RestartingNode", "")

    found = plan_by(PartialPlan(obstacles=(usual,)), PartialPlan(obstacles=(roll_obstacle,), overrides_obstacles=True))

    assert found.obstacle == roll_obstacle


def test_recorded_operation_continues_before_one_that_acts_and_that_before_the_first(
    plan_by: Callable[..., Plan],
) -> None:
    first, acting, known = operation_to("a"), operation_to("b", takes_step=True), operation_to("c")
    parts = [PartialPlan(operations=(it,)) for it in (first, acting, known)]
    record = follow(None, known, now="2026-01-01T00:00:00Z")

    assert plan_by(*parts, record=record).operation == known
    assert plan_by(*parts).operation == acting
    assert plan_by(parts[0], parts[2]).operation == first


def test_operation_of_nodes_that_are_restarted_is_recorded_whatever_was_recorded(plan_by: Callable[..., Plan]) -> None:
    known, restarts = operation_to("a"), operation_to("b", takes_step=True)
    record = follow(None, known, now="2026-01-01T00:00:00Z")

    found = plan_by(
        PartialPlan(operations=(known,)), PartialPlan(operations=(restarts,), overrides_operations=True), record=record
    )

    assert found.operation == restarts


def test_window_that_can_never_open_stalls_the_cluster_at_once_and_stops_no_repair() -> None:
    invalid = RollTimings(windows=WindowState(invalid="window '0 2 30 2 *' in 'UTC' cannot be read"))

    whole = plan_cluster(cluster_of(1), observed(seen(0)), timings=invalid)
    missing = plan_cluster(cluster_of(1), observed(), timings=invalid)

    assert whole.obstacle == Halted("InvalidMaintenanceWindow", "window '0 2 30 2 *' in 'UTC' cannot be read")
    assert missing.obstacle == whole.obstacle
    assert [str(step) for step in missing.steps] == ["start node demo-main-0"]
