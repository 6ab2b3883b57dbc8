"""Warnings about pods that do not start: volumes that are not attached or mounted, sandboxes that are not created.

These causes are in no status: the kubelet and the attach/detach controller only record Events. Events of a pod are read
only while it waits for longer than a start takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ottla_operator.errors import ApiError
from ottla_operator.model.document import Document
from ottla_operator.model.timestamps import instant, valid_timestamp
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.object_store import ClusterObjectStore

EVENT_REASONS = frozenset({"FailedAttachVolume", "FailedCreatePodSandBox", "FailedMapVolume", "FailedMount"})
_PATIENCE_S = 5


async def find_warnings(
    api: ClusterObjectStore, pods: Sequence[Document], seen: Mapping[str, ObservedNode], now: datetime
) -> Mapping[str, ObservedNode]:
    """Return the nodes of ``seen`` that wait for a volume or a sandbox, each with its latest warning."""
    found: dict[str, ObservedNode] = {}
    for pod in pods:
        node = seen[pod["metadata"]["name"]]
        if node.state is not NodeState.STARTING or not _waits_long(pod, now):
            continue
        warnings = [it for it in await _warnings(api, pod) if it.get("reason") in EVENT_REASONS]
        if warnings:
            latest = max(warnings, key=_time_of)
            found[node.name] = replace(node, reason=latest["reason"], message=latest.get("note", ""))
    return found


def _waits_long(pod: Document, now: datetime) -> bool:
    """Tell whether a scheduled pod has waited for its sandbox or volumes for long.

    The kubelet sets PodReadyToStartContainers to True when it has both.
    """
    conditions = {it["type"]: it for it in pod.get("status", {}).get("conditions", [])}
    scheduled = conditions.get("PodScheduled", {})
    since = valid_timestamp(scheduled.get("lastTransitionTime"))
    if pod["metadata"].get("deletionTimestamp") or scheduled.get("status") != "True" or not since:
        return False
    is_prepared = conditions.get("PodReadyToStartContainers", {}).get("status") == "True"
    return not is_prepared and (now - instant(since)).total_seconds() >= _PATIENCE_S


async def _warnings(api: ClusterObjectStore, pod: Document) -> list[Document]:
    try:
        return await api.warnings_about(pod)
    except ApiError as error:
        # Roles that were written for an earlier release may not have the permission.
        if error.status != 403:
            raise
        return []


def _time_of(event: Document) -> str:
    """Return when an Event last occurred; the kubelet writes series in the fields of an older API."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime") or "")
