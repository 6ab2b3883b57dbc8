"""The state of a node, from its pod, or from the lack of one."""

from collections.abc import Iterator

from ottla_operator.model.document import Document
from ottla_operator.model.objects.metadata import PARTS_ANNOTATION, REVISION_ANNOTATION
from ottla_operator.ports.nodes import KUBERNETES_NODE_LOST, POD_REJECTED, NodeState, ObservedNode

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
OOM_KILLED, VOLUME_FULL = "OOMKilled", "VolumeFull"
"""Reasons in place of `_CRASHES`, which do not name the cause."""
_FULL = ("No space left on device", "No inodes left on device", "Disk quota exceeded")
"""ENOSPC and EDQUOT in the log of a broker (`ottla.runtime.disk`)."""
REASONS = _FAILURES | {
    KUBERNETES_NODE_LOST,
    OOM_KILLED,
    POD_REJECTED,
    VOLUME_FULL,
    "Evicted",
    "NodeNotReady",
    "PodFailed",
    "PodMissing",
    "PodTerminating",
    "Unschedulable",
}
"""Every reason of a node, besides those of Events (`pod_events`), of racks and of lost volumes, and besides rarer ones
than Evicted that Kubernetes gives a pod that has ended."""


def missing_node(name: str, rejection: str, *, is_lasting: bool) -> ObservedNode:
    """Return the state of a node without a pod; ``rejection`` is why the API server rejects the pod, if it does.

    A rejection that is not ``is_lasting`` may be over in a moment, and is no reason for the user to act.
    """
    if rejection and is_lasting:
        return ObservedNode(
            name=name, state=NodeState.FAILED, reason=POD_REJECTED, message=rejection, rejection=rejection
        )
    if rejection:
        return ObservedNode(name=name, state=NodeState.STARTING, reason=POD_REJECTED, message=rejection)
    message = "its StatefulSet has not created the pod yet"
    return ObservedNode(name=name, state=NodeState.STARTING, reason="PodMissing", message=message)


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
    reason, message = _trouble(pod, conditions)
    state = NodeState.UNREADY if _has_been_ready(status, conditions) else NodeState.STARTING
    cause, end = _former_end(pod)
    return ObservedNode(
        name=name,
        state=NodeState.FAILED if reason else state,
        uid=uid,
        revision=revision,
        parts=parts,
        has_crashed=reason in _CRASHES,
        reason=(cause or reason if reason in _CRASHES else reason) or cause or "NodeNotReady",
        message=message or (f"its pod is not ready yet; {end}" if end else "its pod is not ready yet"),
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


def _trouble(pod: Document, conditions: dict[str, Document]) -> tuple[str, str]:
    """Return reason and message of why a pod cannot start; two empty strings if it can."""
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        # Evicted, Preempting, Terminated by a node that shuts down: its StatefulSet creates another pod.
        return status.get("reason") or "PodFailed", status.get("message") or "its pod has ended"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("reason") == "Unschedulable":
        return "Unschedulable", scheduled.get("message", "")
    for container in _containers(status):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _FAILURES:
            messages = [waiting.get("message", ""), _end_of(container, pod)]
            return waiting["reason"], ": ".join(it for it in messages if it)
    return "", ""


def _former_end(pod: Document) -> tuple[str, str]:
    """Return the cause, if it has a name, and a description of the end of a container that failed last.

    Two empty strings if none has failed.
    """
    for container in _containers(pod.get("status", {})):
        ended = _ended(container)
        if not ended.get("exitCode"):
            continue
        is_full = any(words in ended.get("message", "") for words in _FULL)
        cause = OOM_KILLED if ended.get("reason") == OOM_KILLED else VOLUME_FULL if is_full else ""
        return cause, f"container {container.get('name', '')} ended with {_end_of(container, pod)}"
    return "", ""


def _end_of(container: Document, pod: Document) -> str:
    """Return exit code and last output of the container's last run; empty if it has not ended yet."""
    ended = _ended(container)
    if not ended:
        return ""
    code = f"exit code {ended['exitCode']}" if "exitCode" in ended else ""
    if ended.get("reason") == OOM_KILLED:
        limit = _memory_limit(pod, container.get("name", ""))
        code = f"{code} ({OOM_KILLED}{f', its memory limit is {limit}' if limit else ''})"
    return ": ".join(it for it in (code, (ended.get("message") or "").strip()) if it)


def _ended(container: Document) -> Document:
    """Return how the container's last run ended; empty if it has not ended yet."""
    states = (container.get(it, {}).get("terminated") for it in ("state", "lastState"))
    return next((it for it in states if it), {})


def _memory_limit(pod: Document, name: str) -> str:
    spec = pod.get("spec", {})
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if container["name"] == name:
            return str(((container.get("resources") or {}).get("limits") or {}).get("memory", ""))
    return ""


def _containers(status: Document) -> Iterator[Document]:
    """Yield the status of each container, in the order of their start."""
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])
