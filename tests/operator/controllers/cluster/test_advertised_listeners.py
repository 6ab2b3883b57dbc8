"""Brokers that advertise an outdated address, and what changes by that."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.controllers.cluster.advertised_listeners import read_advertised_listeners
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.outside import Outside
from ottla_operator.planning.cluster.advertised_addresses import (
    ANOTHER_ADDRESS,
    is_address_known,
    unknown_address,
    with_advertised_addresses,
)
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

Document = dict[str, Any]
Desire = Callable[..., DesiredCluster]

PORTS = {f"demo-main-{number}-out": 30_000 + number for number in range(3)} | {"demo-out-bootstrap": 30_009}


@pytest.fixture
def desire(cluster_manifest: Callable[..., Document]) -> Desire:
    """Return a function from addresses of Services to a cluster of three brokers with a listener by node ports."""

    def of(outside: Outside, type: str = "nodeport", host: str = "h") -> DesiredCluster:
        listener = {"name": "out", "port": 9094, "type": type, "outside": {"advertisedHost": host}}
        cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": [listener]}, nodes=3))
        found = desired_cluster(cluster, lambda pool, at, _: kubernetes_objects.place(cluster, pool, at, outside))
        return replace(found, outside=outside)

    return of


def observed(desired: DesiredCluster, state: NodeState = NodeState.READY) -> ObservedCluster:
    nodes = {it.name: ObservedNode(name=it.name, state=state, revision=it.revision) for it in desired.nodes}
    return ObservedCluster(outdated=(), nodes=nodes)


@pytest.mark.parametrize(
    ("advertised", "is_outdated"),
    [
        pytest.param("OUT://h:30000,NODES://x:9091", False, id="as-it-should"),
        pytest.param("NODES://x:1,OUT://h:30000", False, id="what-others-dial-does-not-matter"),
        pytest.param("OUT://h:30001", True, id="another-port"),
        pytest.param("OUT://i:30000", True, id="another-host"),
        pytest.param("NODES://x:9091", True, id="not-open"),
        pytest.param("", True, id="nothing"),
    ],
)
def test_node_that_advertises_another_address_is_outdated(desire: Desire, advertised: str, is_outdated: bool) -> None:
    desired = desire(Outside(node_ports=PORTS))

    seen = with_advertised_addresses(desired, observed(desired), {0: advertised})

    assert [it.revision == ANOTHER_ADDRESS for it in seen.nodes.values()] == [is_outdated, False, False]


def test_listener_that_must_not_be_open_yet_is_closed(desire: Desire) -> None:
    """Its Service is gone for good, and with it the advertised address."""
    desired = desire(Outside())

    seen = with_advertised_addresses(desired, observed(desired), {0: "NODES://x:9091", 1: "OUT://h:30001"})

    assert [it.revision == ANOTHER_ADDRESS for it in seen.nodes.values()] == [False, True, False]


def test_node_that_does_not_run_is_not_outdated(desire: Desire) -> None:
    desired = desire(Outside(node_ports=PORTS))
    seen = observed(desired)
    seen = replace(seen, nodes={name: replace(it, revision=None) for name, it in seen.nodes.items()})

    assert with_advertised_addresses(desired, seen, {0: "OUT://other:1"}) == seen


def test_only_ready_brokers_are_queried_and_errors_are_skipped(desire: Desire, brokers: Any) -> None:
    desired = desire(Outside(node_ports=PORTS))
    brokers.advertised = {0: "OUT://h:30000", 1: "OUT://h:30001", 2: "never asked"}
    seen = observed(desired)
    nodes = dict(seen.nodes) | {"demo-main-2": replace(seen.nodes["demo-main-2"], state=NodeState.UNREADY)}

    advertised = asyncio.run(read_advertised_listeners(desired, replace(seen, nodes=nodes), brokers))
    brokers.fails["advertised_listeners"] = BrokerUnreachableError("no")

    assert advertised == {0: "OUT://h:30000", 1: "OUT://h:30001"}
    assert asyncio.run(read_advertised_listeners(desired, seen, brokers)) == {}


def test_missing_address_is_named_by_its_service(desire: Desire) -> None:
    desired = desire(Outside(), type="loadbalancer", host="{node}")
    assert unknown_address(desired) is None, "configured hosts are known before load balancers exist"
    desired = desire(Outside(node_ports={"demo-main-0-out": 30_000}))

    waiting = unknown_address(desired)

    assert waiting is not None
    assert "listener out waits for the address of Service demo-out-bootstrap and 2 more" in waiting.message
    assert not is_address_known(desired, desired.cluster.listeners[0])


def test_host_without_services_waits_for_no_address(desire: Desire) -> None:
    on_a_laptop = replace(desire(Outside()), outside=None)

    assert unknown_address(on_a_laptop) is None
    assert is_address_known(on_a_laptop, on_a_laptop.cluster.listeners[0])
