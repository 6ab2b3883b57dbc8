"""What a pod says of its node."""

from ottla_operator.model.document import Document
from ottla_operator.model.objects.metadata import PARTS_ANNOTATION, REVISION_ANNOTATION
from ottla_operator.ports.nodes import MACHINE_LOST, NodeState, ObservedNode

# Reasons of a waiting container that are no part of an ordinary start.
_FAILURES = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)

_CRASHES = frozenset({"CrashLoopBackOff", "RunContainerError"})
"""Those of them where something has run, and ended by itself."""


def observed_node(pod: Document, *, has_successor: bool) -> ObservedNode:
    """Return what a pod says of its node; one that ends without a successor is stopped for good."""
    metadata, status = pod["metadata"], pod.get("status", {})
    name, uid = metadata["name"], metadata.get("uid", "")
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    if metadata.get("deletionTimestamp"):
        reason, message = _ending(pod, conditions, has_successor=has_successor)
        # A successor comes with the published configuration: there is nothing more to restart.
        state = NodeState.STARTING if has_successor else NodeState.STOPPING
        return ObservedNode(name=name, state=state, uid=uid, reason=reason, message=message)
    annotations = metadata.get("annotations") or {}
    revision, parts = annotations.get(REVISION_ANNOTATION), annotations.get(PARTS_ANNOTATION, "")
    if conditions.get("Ready", {}).get("status") == "True":
        machine = status.get("hostIP", "")
        return ObservedNode(name=name, state=NodeState.READY, uid=uid, revision=revision, parts=parts, machine=machine)
    if _is_silent(conditions):
        machine = pod.get("spec", {}).get("nodeName", "")
        message = f"its machine {machine} does not answer"
        return ObservedNode(
            name=name, state=NodeState.UNREADY, uid=uid, revision=revision, reason=MACHINE_LOST, message=message
        )
    reason, message = _trouble(status, conditions)
    state = NodeState.UNREADY if _has_been_ready(status, conditions) else NodeState.STARTING
    return ObservedNode(
        name=name,
        state=NodeState.FAILED if reason else state,
        uid=uid,
        revision=revision,
        parts=parts,
        has_crashed=reason in _CRASHES,
        reason=reason or "NodeNotReady",
        message=message or "its pod is not ready yet",
    )


def _ending(pod: Document, conditions: dict[str, Document], *, has_successor: bool) -> tuple[str, str]:
    """Return reason and message of a pod that has been told to go."""
    words = "its former pod is shutting down" if has_successor else "its pod is shutting down"
    if _is_silent(conditions):
        # It stays so until its machine answers, which it may never do.
        machine = pod.get("spec", {}).get("nodeName", "")
        return MACHINE_LOST, (
            f"its machine {machine} does not answer, and nobody knows whether the pod still runs there; once the "
            f"machine is surely off: kubectl delete node {machine}"
        )
    why = conditions.get("DisruptionTarget", {}).get("message")
    return "PodTerminating", f"{words} ({why})" if why else words


def _is_silent(conditions: dict[str, Document]) -> bool:
    """Tell whether the pod was taken for not ready by others than its machine, which does not answer any more.

    Source: MarkPodsNotReady in Kubernetes' pkg/controller/util/node, which changes that one condition.
    """
    return [conditions.get(it, {}).get("status") for it in ("Ready", "ContainersReady")] == ["False", "True"]


def _has_been_ready(status: Document, conditions: dict[str, Document]) -> bool:
    """Tell whether a pod that is not ready was so since its container started: then it has changed since."""
    changed_at = conditions.get("Ready", {}).get("lastTransitionTime", "")
    running = [it["state"]["running"] for it in status.get("containerStatuses", []) if "running" in it.get("state", {})]
    # Both are RFC 3339 in UTC by whole seconds, which sort as text.
    return any(changed_at > it.get("startedAt", changed_at) for it in running)


def _trouble(status: Document, conditions: dict[str, Document]) -> tuple[str, str]:
    """Return reason and message of what keeps a pod from starting; two empty texts when nothing does."""
    if status.get("phase") == "Failed":
        # Evicted, Preempting, Terminated by a machine that shuts down: its StatefulSet makes another pod.
        return status.get("reason") or "PodFailed", status.get("message") or "its pod has ended"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("reason") == "Unschedulable":
        return "Unschedulable", scheduled.get("message", "")
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _FAILURES:
            last = container.get("lastState", {}).get("terminated", {})
            words = [waiting.get("message", ""), (last.get("message") or "").strip()]
            return waiting["reason"], ": ".join(word for word in words if word)
    return "", ""
