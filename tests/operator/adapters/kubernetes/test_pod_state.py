"""The state of a node whose pod fails, from pods as Kubernetes 1.36 writes them."""

from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.pod_state import observed_node
from ottla_operator.ports.nodes import NodeState

Document = dict[str, Any]
AT = "2026-01-01T00:01:00Z"


def pod(*conditions: Document, deleted: bool = False, **status: Any) -> Document:
    metadata = {"name": "demo-main-0", "annotations": {"ottla.dev/revision": "r"}}
    return {
        "metadata": {**metadata, **({"deletionTimestamp": AT} if deleted else {})},
        "spec": {"nodeName": "worker-2"},
        "status": {"conditions": list(conditions), **status},
    }


def condition(kind: str, status: bool, reason: str = "", message: str = "") -> Document:
    return {"type": kind, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": AT}


RUNNING = [{"name": "broker", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
SILENT = (condition("Ready", False), condition("ContainersReady", True))
NOWHERE = {
    "no-capacity": "0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available.",
    "claim-deleted": '0/3 nodes are available: persistentvolumeclaim "data-demo-main-0" not found.',
    "volume-elsewhere": (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had volume node affinity conflict."
    ),
}
NO_IMAGE = 'Back-off pulling image "ottla/broker:9": ErrImagePull: not found'
EVICTED = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 9Mi."
TAINT = condition("DisruptionTarget", True, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


@pytest.mark.parametrize(
    ("found", "state", "reason", "message"),
    [
        *(
            pytest.param(
                pod(condition("PodScheduled", False, "Unschedulable", words), phase="Pending"),
                NodeState.FAILED,
                "Unschedulable",
                words,
                id=name,
            )
            for name, words in NOWHERE.items()
        ),
        pytest.param(
            pod(
                condition("PodScheduled", True),
                condition("Ready", False, "ContainersNotReady", "containers with incomplete status: [format]"),
                condition("ContainersReady", False, "ContainersNotReady"),
                phase="Pending",
                initContainerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff", "message": NO_IMAGE}}}],
            ),
            NodeState.FAILED,
            "ImagePullBackOff",
            NO_IMAGE,
            id="image-cannot-be-pulled",
        ),
        pytest.param(
            pod(
                condition("Ready", False, "PodFailed"),
                condition("ContainersReady", False, "PodFailed"),
                phase="Failed",
                reason="Evicted",
                message=EVICTED,
            ),
            NodeState.FAILED,
            "Evicted",
            EVICTED,
            id="evicted-by-its-kubernetes-node",
        ),
        pytest.param(
            pod(condition("Ready", False, "PodFailed"), phase="Failed"),
            NodeState.FAILED,
            "PodFailed",
            "its pod has ended",
            id="ended-without-a-reason",
        ),
        pytest.param(
            pod(*SILENT, phase="Running", containerStatuses=RUNNING),
            NodeState.UNREADY,
            "MachineLost",
            "its Kubernetes node worker-2 does not respond",
            id="kubernetes-node-silent",
        ),
        pytest.param(
            pod(*SILENT, TAINT, deleted=True, phase="Running", containerStatuses=RUNNING),
            NodeState.STARTING,
            "MachineLost",
            "its Kubernetes node worker-2 does not respond, so the pod may still run there; once the host "
            "is surely off: kubectl delete node worker-2",
            id="terminating-on-a-dead-kubernetes-node",
        ),
        pytest.param(
            pod(
                condition("Ready", True),
                condition("ContainersReady", True),
                condition("DisruptionTarget", True, "EvictionByEvictionAPI", "Eviction API: evicting"),
                deleted=True,
                phase="Running",
            ),
            NodeState.STARTING,
            "PodTerminating",
            "its former pod is shutting down (Eviction API: evicting)",
            id="drained",
        ),
        pytest.param(
            pod(condition("Ready", True), deleted=True, phase="Running"),
            NodeState.STARTING,
            "PodTerminating",
            "its former pod is shutting down",
            id="restarted",
        ),
    ],
)
def test_state_of_a_failing_pod_names_the_reason(found: Document, state: NodeState, reason: str, message: str) -> None:
    node = observed_node(found, has_successor=True)

    assert (node.state, node.reason, node.message) == (state, reason, message)


BACK_OFF = "back-off 10s restarting failed container=broker pod=demo-main-0_kafka(u-1)"
FULL_DISK = "log directory /var/lib/ottla/data is offline with 3 logs: [Errno 28] No space left on device"
LIMITED = {"containers": [{"name": "broker", "resources": {"limits": {"memory": "256Mi"}}}]}
CRASHED = {"waiting": {"reason": "CrashLoopBackOff", "message": BACK_OFF}}


def ended(code: int, reason: str = "Error", message: str = "") -> Document:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        pytest.param(
            {"state": CRASHED, "lastState": ended(3, message="cannot bind :9092\n")},
            "CrashLoopBackOff",
            f"{BACK_OFF}: exit code 3: cannot bind :9092",
            id="exit-code",
        ),
        pytest.param(
            {"state": CRASHED, "lastState": ended(137, "OOMKilled")},
            "OOMKilled",
            f"{BACK_OFF}: exit code 137 (OOMKilled, its memory limit is 256Mi)",
            id="out-of-memory",
        ),
        pytest.param(
            {"state": CRASHED, "lastState": ended(1, message=FULL_DISK)},
            "VolumeFull",
            f"{BACK_OFF}: exit code 1: {FULL_DISK}",
            id="volume-full",
        ),
    ],
)
def test_crash_has_exit_code_and_last_output(container: Document, reason: str, message: str) -> None:
    found = pod(condition("Ready", False), phase="Running", containerStatuses=[{"name": "broker", **container}])
    node = observed_node({**found, "spec": LIMITED}, has_successor=True)

    assert (node.state, node.reason, node.message) == (NodeState.FAILED, reason, message)
    assert node.has_crashed


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        pytest.param({"state": ended(137, "OOMKilled")}, "OOMKilled", id="just-ended"),
        pytest.param({**RUNNING[0], "lastState": ended(137, "OOMKilled")}, "OOMKilled", id="started-again"),
        pytest.param({**RUNNING[0], "lastState": ended(1, message=FULL_DISK)}, "VolumeFull", id="volume-full"),
        pytest.param({**RUNNING[0], "lastState": ended(1, message="words")}, "NodeNotReady", id="any-other"),
    ],
)
def test_pod_that_is_started_again_has_the_end_of_its_container(container: Document, reason: str) -> None:
    found = pod(condition("Ready", False), phase="Running", containerStatuses=[{"name": "broker", **container}])
    node = observed_node({**found, "spec": LIMITED}, has_successor=True)

    assert (node.state is NodeState.FAILED, node.reason) == (False, reason)
    assert node.message.startswith("its pod is not ready yet; container broker ended with exit code 1")


def test_container_that_succeeded_is_no_cause() -> None:
    done = {"name": "format", "state": ended(0, "Completed")}
    found = pod(condition("Ready", False), phase="Pending", initContainerStatuses=[done])
    node = observed_node(found, has_successor=True)

    assert (node.reason, node.message) == ("NodeNotReady", "its pod is not ready yet")


def test_terminating_pod_on_a_lost_kubernetes_node_is_not_stopped() -> None:
    node = observed_node(pod(*SILENT, TAINT, deleted=True, phase="Running"), has_successor=False)

    assert (node.state, node.reason) == (NodeState.STOPPING, "MachineLost")
