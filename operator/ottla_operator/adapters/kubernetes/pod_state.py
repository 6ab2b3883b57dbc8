"""The state of a node, from its pod."""

from ottla_operator.model.document import Document
from ottla_operator.model.objects.metadata import PARTS_ANNOTATION, REVISION_ANNOTATION
from ottla_operator.ports.nodes import KUBERNETES_NODE_LOST, NodeState, ObservedNode

# Reasons of a waiting container that do not occur in a normal start.
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
"""Those after which a container has run, and ended by itself."""


def observed_node(pod: Document, *, has_successor: bool) -> ObservedNode:
    """Return the state of a pod's node; a terminating pod without a successor is stopped for good."""
    metadata, status = pod["metadata"], pod.get("status", {})
    name, uid = metadata["name"], metadata.get("uid", "")
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    if metadata.get("deletionTimestamp"):
        reason, message = _ending(pod, conditions, has_successor=has_successor)
        # A successor starts with the published configuration: no restart is needed.
        state = NodeState.STARTING if has_successor else NodeState.STOPPING
        return ObservedNode(name=name, state=state, uid=uid, reason=reason, message=message)
    annotations = metadata.get("annotations") or {}
    revision, parts = annotations.get(REVISION_ANNOTATION), annotations.get(PARTS_ANNOTATION, "")
    if conditions.get("Ready", {}).get("status") == "True":
        host_address = status.get("hostIP", "")
        return ObservedNode(
            name=name, state=NodeState.READY, uid=uid, revision=revision, parts=parts, host_address=host_address
        )
    if _is_silent(conditions):
        node = pod.get("spec", {}).get("nodeName", "")
        message = f"its Kubernetes node {node} does not respond"
        return ObservedNode(
            name=name, state=NodeState.UNREADY, uid=uid, revision=revision, reason=KUBERNETES_NODE_LOST, message=message
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
    """Return reason and message of a terminating pod."""
    message = "its former pod is shutting down" if has_successor else "its pod is shutting down"
    if _is_silent(conditions):
        # It stays so until its Kubernetes node responds, which may never happen.
        node = pod.get("spec", {}).get("nodeName", "")
        return KUBERNETES_NODE_LOST, (
            f"its Kubernetes node {node} does not respond, so the pod may still run there; once the host is surely "
            f"off: kubectl delete node {node}"
        )
    why = conditions.get("DisruptionTarget", {}).get("message")
    return "PodTerminating", f"{message} ({why})" if why else message


def _is_silent(conditions: dict[str, Document]) -> bool:
    """Tell whether the node controller marked the pod as not ready, because its Kubernetes node does not respond.

    Source: MarkPodsNotReady in Kubernetes' pkg/controller/util/node, which changes that one condition.
    """
    return [conditions.get(it, {}).get("status") for it in ("Ready", "ContainersReady")] == ["False", "True"]


def _has_been_ready(status: Document, conditions: dict[str, Document]) -> bool:
    """Tell whether a pod that is not ready was ready since its container started, by its last transition."""
    changed_at = conditions.get("Ready", {}).get("lastTransitionTime", "")
    running = [it["state"]["running"] for it in status.get("containerStatuses", []) if "running" in it.get("state", {})]
    # Both are RFC 3339 in UTC by whole seconds, which sort as strings.
    return any(changed_at > it.get("startedAt", changed_at) for it in running)


def _trouble(status: Document, conditions: dict[str, Document]) -> tuple[str, str]:
    """Return reason and message of why a pod cannot start; two empty strings if it can."""
    if status.get("phase") == "Failed":
        # Evicted, Preempting, Terminated by a node that shuts down: its StatefulSet creates another pod.
        return status.get("reason") or "PodFailed", status.get("message") or "its pod has ended"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("reason") == "Unschedulable":
        return "Unschedulable", scheduled.get("message", "")
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _FAILURES:
            last = container.get("lastState", {}).get("terminated", {})
            messages = [waiting.get("message", ""), (last.get("message") or "").strip()]
            return waiting["reason"], ": ".join(it for it in messages if it)
    return "", ""
