"""Maintenance windows that can never open are in the status as soon as the Cluster is observed."""

import asyncio
from collections.abc import Callable
from typing import Any

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import ObjectKey

CLUSTER = ObjectKey("Cluster", "kafka", "demo")


def test_window_that_can_never_open_stalls_the_cluster_which_is_published_all_the_same(
    controller: ControllerManager, api: Any, cluster_manifest: Callable[..., dict[str, Any]]
) -> None:
    window = {"schedule": "0 2 * * 6", "durationMinutes": 60, "timeZone": "Prague"}
    api.put(cluster_manifest(spec={"maintenanceWindows": [window]}))
    asyncio.run(controller.reconcile(CLUSTER))

    assert api.reasons(CLUSTER)["Stalled"] == ("True", "InvalidMaintenanceWindow")
    assert "apply StatefulSet" in api.writes
