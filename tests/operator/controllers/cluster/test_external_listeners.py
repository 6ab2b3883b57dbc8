"""The controller and an outside listener: the status has its bootstrap address, or the Service that it waits for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
DEMO = ObjectKey("Cluster", "kafka", "demo")
OUT: Document = {"name": "out", "port": 9095, "type": "loadbalancer"}


@pytest.fixture
def world(
    controller: ControllerManager, api: Any, brokers: Any, cluster_manifest: Callable[..., Document]
) -> Callable[[], Document]:
    """Return a function that reconciles as often as it takes, and returns the status.

    The cluster has no TLS, without which the API server admits no such listener: so no handshake is needed here.
    """
    cluster_id = "AAAAAAAAAAAAAAAAAAAAAA"
    brokers.cluster_id = cluster_id
    manifest = cluster_manifest(spec={"listeners": [{"name": "in", "port": 9094}, OUT]})
    api.put({**manifest, "status": {"clusterId": cluster_id, "initialControllers": []}})

    def settle() -> Document:
        for _ in range(6):
            asyncio.run(controller.reconcile(DEMO))
        status: Document = api.stored[DEMO]["status"]
        return status

    return settle


def add_pod(api: Any, revision: str) -> None:
    api.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "demo-main-0",
                "labels": {"ottla.dev/cluster": "demo", "ottla.dev/broker": "true"},
                "annotations": {"ottla.dev/revision": revision},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def test_status_names_the_service_until_its_address_is_known(
    world: Callable[[], Document], api: Any, brokers: Any
) -> None:
    world()
    stateful_set = api.stored[ObjectKey("StatefulSet", "kafka", "demo-main")]
    revision = stateful_set["spec"]["template"]["metadata"]["annotations"]["ottla.dev/revision"]
    add_pod(api, revision)
    brokers.advertised[0] = "IN://x:9094"
    waits = world()
    for key in [it for it in api.stored if it.kind == "Service" and "-out" in it.name]:
        api.stored[key]["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    world()
    restarted = "delete Pod/demo-main-0" in api.writes
    add_pod(api, revision)
    brokers.advertised[0] = "IN://x:9094,OUT://192.0.2.1:9095"
    api.writes.clear()
    ready = world()

    assert waits["conditions"][0]["reason"] == "AddressUnknown"
    assert "Service demo-out-bootstrap and 1 more" in waits["conditions"][0]["message"]
    assert [it["name"] for it in waits["listeners"]] == ["in"]
    assert restarted, "it did not advertise the new address"
    assert ready["conditions"][0]["status"] == "True"
    assert {it["name"]: it["bootstrapServers"] for it in ready["listeners"]} == {
        "in": "demo-bootstrap.kafka.svc:9094",
        "out": "192.0.2.1:9095",
    }
    assert not [it for it in api.writes if "Pod" in it], "it is restarted once"
