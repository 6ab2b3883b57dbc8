"""Warnings about pods that wait for a volume: the latest one is the node's reason, after a few seconds."""

import asyncio
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.pod_events import find_warnings
from ottla_operator.errors import ApiError
from ottla_operator.model.timestamps import instant
from ottla_operator.ports.nodes import NodeState, ObservedNode

Document = dict[str, Any]
ATTACH = 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node'
MOUNT = 'MountVolume.SetUp failed for volume "tls" : secret "demo-tls" not found'
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
PREPARED = {"type": "PodReadyToStartContainers", "status": "True"}
STARTING = ObservedNode(name="demo-main-0", state=NodeState.STARTING, reason="NodeNotReady", message="words")


class FakeEvents:
    """The Events of the one pod, and how often they were listed."""

    def __init__(self, *events: Document, error: ApiError | None = None) -> None:
        self.events = events
        self.error = error
        self.listings = 0

    async def warnings_about(self, document: Document) -> list[Document]:
        assert document["metadata"]["uid"] == "u-1"
        self.listings += 1
        if self.error is not None:
            raise self.error
        return list(self.events)


def pod(*conditions: Document, **metadata: Any) -> Document:
    metadata = {"name": "demo-main-0", "uid": "u-1", **metadata}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def event(reason: str, note: str, at: str) -> Document:
    return {"reason": reason, "note": note, "deprecatedLastTimestamp": at}


def find(events: Any, found: Document, node: ObservedNode = STARTING, *, at: str = "2026-01-01T00:00:05Z") -> Any:
    return asyncio.run(find_warnings(events, [found], {node.name: node}, instant(at)))


@pytest.mark.parametrize(
    ("events", "reason", "message"),
    [
        pytest.param([event("FailedMount", MOUNT, "2026-01-01T00:00:01Z")], "FailedMount", MOUNT, id="mount"),
        pytest.param(
            [
                event("FailedMount", MOUNT, "2026-01-01T00:00:01Z"),
                event("FailedAttachVolume", ATTACH, "2026-01-01T00:00:02Z"),
                event("Unhealthy", "probe failed", "2026-01-01T00:00:03Z"),
            ],
            "FailedAttachVolume",
            ATTACH,
            id="latest-about-volumes",
        ),
        pytest.param(
            [
                event("FailedMount", MOUNT, "2026-01-01T00:00:01Z"),
                {
                    "reason": "FailedAttachVolume",
                    "note": ATTACH,
                    "eventTime": "2026-01-01T00:00:00.000000Z",
                    "series": {"lastObservedTime": "2026-01-01T00:00:04.000000Z"},
                },
            ],
            "FailedAttachVolume",
            ATTACH,
            id="latest-of-a-series",
        ),
    ],
)
def test_latest_warning_is_the_reason(events: list[Document], reason: str, message: str) -> None:
    (node,) = find(FakeEvents(*events), pod(SCHEDULED)).values()

    assert (node.state, node.reason, node.message) == (NodeState.STARTING, reason, message)


@pytest.mark.parametrize(
    ("found", "state", "at"),
    [
        pytest.param(pod(SCHEDULED), NodeState.STARTING, "2026-01-01T00:00:04Z", id="a-usual-start"),
        pytest.param(pod(SCHEDULED, PREPARED), NodeState.STARTING, "2026-01-01T00:01:00Z", id="volumes-are-mounted"),
        pytest.param(pod(), NodeState.STARTING, "2026-01-01T00:01:00Z", id="not-scheduled"),
        pytest.param(pod(SCHEDULED), NodeState.FAILED, "2026-01-01T00:01:00Z", id="has-a-reason"),
        pytest.param(pod(SCHEDULED), NodeState.READY, "2026-01-01T00:01:00Z", id="ready"),
        pytest.param(
            pod(SCHEDULED, deletionTimestamp="2026-01-01T00:00:30Z"),
            NodeState.STARTING,
            "2026-01-01T00:01:00Z",
            id="terminating",
        ),
    ],
)
def test_events_are_not_listed_for_other_pods(found: Document, state: NodeState, at: str) -> None:
    events = FakeEvents(event("FailedMount", MOUNT, "2026-01-01T00:00:01Z"))

    assert find(events, found, ObservedNode(name="demo-main-0", state=state), at=at) == {}
    assert events.listings == 0


def test_operator_without_the_permission_does_without_events() -> None:
    assert find(FakeEvents(error=ApiError(403, "Forbidden", "events is forbidden")), pod(SCHEDULED)) == {}


def test_failing_listing_is_an_error() -> None:
    with pytest.raises(ApiError):
        find(FakeEvents(error=ApiError(500, "InternalError", "etcd")), pod(SCHEDULED))
