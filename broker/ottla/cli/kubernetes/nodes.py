"""The nodes of a Cluster, from their pods."""

from datetime import UTC, datetime
from typing import Any

from ottla.cli.kubernetes.kubectl import Document
from ottla.cli.kubernetes.target import Target

_CLUSTER_LABEL = "ottla.dev/cluster"
_REVISION = "ottla.dev/revision"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def pods(target: Target) -> list[Document]:
    """Return the pods of the Cluster in numeric order of the nodes."""
    found: list[Document] = target.kubectl.get("pods", f"--selector={_CLUSTER_LABEL}={target.name}")["items"]
    return sorted(found, key=lambda pod: (len(pod["metadata"]["name"]), pod["metadata"]["name"]))


def node_rows(target: Target) -> list[dict[str, Any]]:
    """Return a row of each node; ``outdated`` if its template is not that of its StatefulSet."""
    sets = target.kubectl.get("statefulsets", f"--selector={_CLUSTER_LABEL}={target.name}")["items"]
    revisions = {it["metadata"]["name"]: _revision(it["spec"]["template"]) for it in sets}
    return [_row(pod, revisions) for pod in pods(target)]


def is_ready(pod: Document) -> bool:
    """Return whether a pod is ready and not terminating."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _row(pod: Document, revisions: dict[str, str | None]) -> dict[str, Any]:
    metadata, status = pod["metadata"], pod.get("status", {})
    containers = status.get("containerStatuses", [])
    return {
        "name": metadata["name"],
        "state": _state(pod),
        "outdated": _revision(pod) != revisions.get(metadata["name"].rpartition("-")[0]),
        "restarts": sum(it.get("restartCount", 0) for it in containers),
        "age": age(metadata.get("creationTimestamp")),
        "image": pod["spec"]["containers"][0]["image"],
        "rack": (metadata.get("annotations") or {}).get("ottla.dev/rack"),
        "machine": pod["spec"].get("nodeName"),
    }


def _state(pod: Document) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    if is_ready(pod):
        return "ready"
    status = pod.get("status", {})
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        if reason := container.get("state", {}).get("waiting", {}).get("reason"):
            return str(reason)
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return str(condition.get("reason") or "Pending")
    return "not ready"


def _revision(holder: Document) -> str | None:
    revision: str | None = (holder["metadata"].get("annotations") or {}).get(_REVISION)
    return revision


def age(since: str | None) -> str | None:
    """Return how long ago ``since`` (RFC 3339) was, as ``90s``, ``12m``, ``5h`` or ``3d``; None if unknown."""
    if not since:
        return None
    seconds = max(0, round((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()))
    for unit_s, sign in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s}{sign}"
    return f"{seconds}s"
