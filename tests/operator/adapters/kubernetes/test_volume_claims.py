"""Volumes of running clusters: they grow, are added and are deleted, wherever the operator is killed."""

import asyncio
import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from fake_kubernetes import FakeKubernetes
from kills import KilledError

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.controllers.cluster.reconcile import reconcile_cluster
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Reached, Rejected, Underway, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.ports.cluster_view import QuorumMember

Document = dict[str, Any]
Builder = Callable[..., Document]
PASSES_MAX = 60
UID = "00000000-0000-0000-0000-000000000001"


class Operator:
    """A Cluster in a Kubernetes in memory, with healthy brokers; any reconciliation may be the process's last."""

    def __init__(self, world: FakeKubernetes, brokers: Any, manifest: Document) -> None:
        self.world = world
        self.brokers = brokers
        self.manifest = copy.deepcopy(manifest)
        self.manifest["metadata"].update({"namespace": "kafka", "uid": UID})
        self.manifest["status"] = {"clusterId": brokers.cluster_id, "initialControllers": []}

    def ask(self, **pool: Any) -> None:
        """Change the pool, as a user does."""
        self.manifest["spec"]["pools"][0].update(copy.deepcopy(pool))

    def one_pass(self) -> ReconcileResult:
        cluster = Cluster.parse(self.manifest)
        host = KubernetesHost(self.world, "kafka", "ottla/broker:1")
        return asyncio.run(reconcile_cluster(cluster, host, self.brokers.connect))

    def until_done(self) -> ReconcileResult:
        """Reconcile, with time in between, until nothing is waited for."""
        said = []
        for _ in range(PASSES_MAX):
            try:
                result = self.one_pass()
            except KilledError:
                self.world.kill_at = None
            else:
                said.append(f"{result.readiness.reason}: {result.readiness.message}")
                if not isinstance(result.readiness, Waiting | Underway):
                    return result
            self.world.tick()
        pytest.fail(f"not done after {PASSES_MAX} passes: {said[-4:]}")


def voters(count: int) -> tuple[QuorumMember, ...]:
    return tuple(QuorumMember(node_id=node, directory_id=f"d{node}", is_caught_up=True) for node in range(count))


@pytest.fixture
def three(brokers: Any, cluster_manifest: Builder) -> Callable[..., Operator]:
    """Return a builder of operators whose cluster of three runs, with no writes and restarts recorded yet."""

    def build(**pool: Any) -> Operator:
        brokers.broker_ids, brokers.voters = tuple(range(3)), voters(3)
        operator = Operator(FakeKubernetes(), brokers, cluster_manifest(nodes=3, **pool))
        operator.until_done()
        operator.world.writes.clear()
        operator.world.restarts.clear()
        return operator

    return build


DISKS: Document = {"size": "2Gi", "volumes": [{"name": "d1", "size": "5Gi"}]}


def assert_all_have_two_disks(operator: Operator) -> None:
    assert operator.world.disks() == {f"demo-main-{number}": ["data", "d1"] for number in range(3)}
    assert set(operator.world.sizes()) == {f"{disk}-demo-main-{n}" for disk in ("data", "d1") for n in range(3)}
    assert isinstance(operator.one_pass().readiness, Reached)


def test_volumes_grow_and_no_pod_is_touched(three: Callable[..., Operator]) -> None:
    operator = three()
    pods, sets = operator.world.uids("Pod"), operator.world.uids("StatefulSet")
    operator.ask(storage={"size": "2Gi"})

    result = operator.until_done()

    assert isinstance(result.readiness, Reached)
    assert operator.world.sizes() == {f"data-demo-main-{number}": "2Gi" for number in range(3)}
    assert operator.world.uids("Pod") == pods
    # New nodes get the same size: the StatefulSet has other claim templates.
    assert operator.world.uids("StatefulSet") != sets
    (template,) = operator.world.stored["StatefulSet", "demo-main"]["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"
    done = len(operator.world.writes)
    assert isinstance(operator.one_pass().readiness, Reached)
    assert len(operator.world.writes) == done


def killed_everywhere(three: Callable[..., Operator], storage: Document) -> list[Operator]:
    """Apply ``storage`` once per write, with the operator killed before or after that write."""
    undisturbed = three()
    undisturbed.ask(storage=storage)
    undisturbed.until_done()
    others = []
    for moment in itertools.product(range(len(undisturbed.world.writes)), (False, True)):
        operator = three()
        operator.ask(storage=storage)
        operator.world.kill_at = moment
        assert isinstance(operator.until_done().readiness, Reached)
        assert operator.world.kill_at is None, "the operator was not killed"
        others.append(operator)
    assert others, "there is a write to be killed at"
    return others


def test_growth_is_finished_by_the_next_operator_after_any_kill(three: Callable[..., Operator]) -> None:
    pods = three().world.uids("Pod")

    others = killed_everywhere(three, {"size": "2Gi"})

    assert len(others) == 2 * 5, "three claims, and one set less and one more"
    for operator in others:
        assert set(operator.world.sizes().values()) == {"2Gi"}
        assert operator.world.uids("Pod") == pods


def test_storage_class_that_cannot_grow_is_reported_and_stops_nothing_else(three: Callable[..., Operator]) -> None:
    operator = three()
    operator.world.can_grow = False
    operator.ask(storage={"size": "2Gi"}, resources={"limits": {"memory": "1Gi"}})

    readiness = operator.until_done().readiness

    assert isinstance(readiness, Rejected)
    assert readiness.reason == "VolumeCannotGrow"
    assert readiness.message.startswith("claim data-demo-main-0 and 2 more could not be changed: 403 Forbidden: only")
    assert sorted(operator.world.restarts) == [f"demo-main-{number}" for number in range(3)]
    operator.world.can_grow = True
    assert isinstance(operator.until_done().readiness, Reached)


def test_slow_volume_growth_is_reported_while_the_cluster_serves(three: Callable[..., Operator]) -> None:
    operator = three()
    operator.ask(storage={"size": "2Gi"})
    operator.one_pass()
    operator.world.tick()
    waits = {"type": "FileSystemResizePending", "status": "True", "message": "waiting for the pod"}
    claim = operator.world.stored["PersistentVolumeClaim", "data-demo-main-2"]
    claim["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "conditions": [waits]}

    readiness = operator.one_pass().readiness

    assert readiness == Underway(
        "VolumesGrowing",
        "waiting for 1 volumes to grow, first data-demo-main-2: 1Gi of 2Gi "
        "(FileSystemResizePending: waiting for the pod)",
    )


def test_stateful_set_is_replaced_after_its_garbage_collection(three: Callable[..., Operator]) -> None:
    operator = three()
    pods = operator.world.uids("Pod")
    operator.world.orphaning = False
    operator.ask(storage={"size": "2Gi"})
    for _ in range(3):
        readiness = operator.one_pass().readiness
        operator.world.tick()
    operator.world.orphaning = True

    assert isinstance(readiness, Waiting)
    assert isinstance(operator.until_done().readiness, Reached)
    assert operator.world.uids("Pod") == pods


def test_nodes_are_known_while_their_set_is_replaced(three: Callable[..., Operator]) -> None:
    """A leaving node may hold the only majority of the quorum: its pod must be recreated."""
    operator = three()
    del operator.world.stored["StatefulSet", "demo-main"]
    del operator.world.stored["Pod", "demo-main-2"]
    operator.ask(nodes=1)
    host = KubernetesHost(operator.world, "kafka", "ottla/broker:1")
    cluster = Cluster.parse(operator.manifest)

    seen = asyncio.run(host.observe(asyncio.run(host.desired(cluster))))

    assert seen.nodes["demo-main-2"].reason == "PodMissing"


def test_disk_is_added_node_by_node_in_their_order(three: Callable[..., Operator]) -> None:
    operator = three()
    # The active controller, 0, would be the last; but pods of higher ordinals wait until it has the volume.
    operator.ask(storage=DISKS)

    assert isinstance(operator.until_done().readiness, Reached)

    assert_all_have_two_disks(operator)
    assert operator.world.restarts == ["demo-main-0", "demo-main-1", "demo-main-2"]


def test_addition_is_finished_by_the_next_operator_after_any_kill(three: Callable[..., Operator]) -> None:
    for operator in killed_everywhere(three, DISKS):
        assert_all_have_two_disks(operator)


@pytest.mark.parametrize("lost", range(3))
@pytest.mark.parametrize("passes", range(1, 10))
def test_pod_lost_while_volumes_are_added_is_recreated(three: Callable[..., Operator], lost: int, passes: int) -> None:
    """The StatefulSet controller would not create it behind a pod that lacks the volume."""
    operator = three()
    operator.ask(storage=DISKS)
    for _ in range(passes):
        operator.one_pass()
        operator.world.tick()
    operator.world.stored.pop(("Pod", f"demo-main-{lost}"), None)

    assert isinstance(operator.until_done().readiness, Reached)

    assert_all_have_two_disks(operator)
    assert len(operator.world.restarts) <= 6


def test_missing_pod_of_a_pool_whose_name_begins_the_same_is_another_pools(three: Callable[..., Operator]) -> None:
    operator = three()
    more = {"name": "main-b", "nodes": 1, "roles": ["broker"], "firstNodeId": 100, "storage": {"size": "1Gi"}}
    operator.manifest["spec"]["pools"].append(more)
    operator.brokers.broker_ids = (0, 1, 2, 100)
    operator.ask(storage=DISKS)

    assert isinstance(operator.until_done().readiness, Reached)

    assert operator.world.disks().pop("demo-main-b-0") == ["data"]
    assert operator.world.restarts == ["demo-main-0", "demo-main-1", "demo-main-2"]


def test_new_node_with_the_volume_does_not_wait_for_the_others(three: Callable[..., Operator]) -> None:
    operator = three()
    operator.ask(storage=DISKS, nodes=5)
    operator.brokers.broker_ids, operator.brokers.voters = tuple(range(5)), voters(5)

    assert isinstance(operator.until_done().readiness, Reached)

    assert set(operator.world.disks()) == {f"demo-main-{number}" for number in range(5)}
    assert all(disks == ["data", "d1"] for disks in operator.world.disks().values())


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_volumes_of_a_removed_node_are_deleted_by_policy_after_it_is_unregistered(
    three: Callable[..., Operator], policy: str
) -> None:
    operator = three()
    operator.ask(nodes=1, storage={"size": "1Gi", "onScaleDown": policy})
    operator.brokers.voters = operator.brokers.voters[:1]
    operator.brokers.broker_ids, operator.brokers.fenced_ids = (0,), (1, 2)
    operator.brokers.changes.clear()
    for _ in range(4):
        operator.one_pass()
        operator.world.tick()
        operator.world.stored.pop(("Pod", "demo-main-1"), None)
        operator.world.stored.pop(("Pod", "demo-main-2"), None)
    asked = operator.world.sizes().keys()
    operator.brokers.fenced_ids = ()

    operator.until_done()
    operator.world.tick()

    assert asked == {f"data-demo-main-{number}" for number in range(3)}
    left = {"data-demo-main-0"} if policy == "Delete" else asked
    assert operator.world.sizes().keys() == left
    assert "unregister 1" in operator.brokers.changes


def test_volumes_of_another_cluster_are_never_removed(three: Callable[..., Operator]) -> None:
    operator = three(storage={"size": "1Gi", "onScaleDown": "Delete"})
    foreign = copy.deepcopy(operator.world.stored["PersistentVolumeClaim", "data-demo-main-0"])
    foreign["metadata"].update({"name": "data-demo-main-7", "annotations": {"ottla.dev/cluster-id": "other"}})
    operator.world.stored["PersistentVolumeClaim", "data-demo-main-7"] = foreign

    operator.until_done()
    operator.world.tick()

    assert "data-demo-main-7" in operator.world.sizes()


def test_deletion_policy_decides_whether_the_cluster_owns_volumes(three: Callable[..., Operator]) -> None:
    operator = three()

    def owners() -> list[list[str]]:
        claims = [it for (kind, _), it in operator.world.stored.items() if kind == "PersistentVolumeClaim"]
        return [[owner["uid"] for owner in it["metadata"].get("ownerReferences", [])] for it in claims]

    before = owners()
    operator.manifest["spec"]["deletionPolicy"] = "Delete"
    operator.until_done()
    with_policy = owners()
    operator.manifest["spec"]["deletionPolicy"] = "Retain"
    operator.until_done()

    assert (before, with_policy, owners()) == ([[]] * 3, [[UID]] * 3, [[]] * 3)
    assert operator.world.restarts == []


def test_lost_volume_is_the_reason_of_its_node(three: Callable[..., Operator]) -> None:
    operator = three()
    claim = operator.world.stored["PersistentVolumeClaim", "data-demo-main-1"]
    claim["status"]["phase"], claim["spec"]["volumeName"] = "Lost", "pv-7"
    operator.world.stored["Pod", "demo-main-1"]["status"] = {"conditions": []}

    readiness = operator.one_pass().readiness

    assert readiness.reason == "VolumeLost"
    assert "the volume pv-7 of its claim data-demo-main-1 is gone" in readiness.message


ZONE = "topology.kubernetes.io/zone"


def label_kubernetes_nodes(operator: Operator, label: str) -> None:
    for machine in operator.world.machines:
        metadata = {"name": machine, "uid": machine, "labels": {label: f"{machine}-zone"}}
        operator.world.stored["Node", machine] = {"kind": "Node", "metadata": metadata}


def test_pods_get_their_racks_and_become_ready(three: Callable[..., Operator]) -> None:
    operator = three()
    label_kubernetes_nodes(operator, ZONE)
    operator.manifest["spec"]["rack"] = {"topologyKey": ZONE}

    assert isinstance(operator.until_done().readiness, Reached)

    pods = {name: it for (kind, name), it in operator.world.stored.items() if kind == "Pod"}
    assert {name: it["metadata"]["annotations"]["ottla.dev/rack"] for name, it in pods.items()} == {
        f"demo-main-{number}": f"m-{number}-zone" for number in range(3)
    }


def test_kubernetes_node_without_the_label_is_named(three: Callable[..., Operator]) -> None:
    operator = three()
    label_kubernetes_nodes(operator, "other")
    operator.manifest["spec"]["rack"] = {"topologyKey": ZONE}
    for _ in range(4):
        readiness = operator.one_pass().readiness
        operator.world.tick()

    assert isinstance(readiness, Waiting)
    assert readiness.reason == "RackMissing"
    assert readiness.message == (
        "node demo-main-1: its Kubernetes node m-1 has no label topology.kubernetes.io/zone, which names the rack; "
        "kubectl label node m-1 topology.kubernetes.io/zone=..."
    )
    # Only one node was restarted: the others keep running unchanged.
    assert operator.world.restarts == ["demo-main-1"]
    label_kubernetes_nodes(operator, ZONE)
    assert isinstance(operator.until_done().readiness, Reached)
