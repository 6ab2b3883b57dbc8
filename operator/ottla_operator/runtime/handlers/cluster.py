"""Handlers of Clusters, and of the StatefulSets that they own."""

from typing import Any

import kopf

from ottla_operator.model.document import GROUP, VERSION
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER
from ottla_operator.runtime.handlers.events import Marks, mark


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Mark a Cluster dirty when it is created, changed or deleted, and when the status of its StatefulSets changes."""

    @kopf.on.event(GROUP, VERSION, "clusters", registry=registry)
    async def cluster_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        mark(marks, "Cluster", event)

    @kopf.on.event(
        "apps", "v1", "statefulsets", labels={MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: kopf.PRESENT}, registry=registry
    )
    async def stateful_set_changed(meta: kopf.Meta, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        marks.child_seen(str(meta.namespace), meta.labels[CLUSTER_LABEL])
