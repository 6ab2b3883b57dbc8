"""Brokers that clients outside cannot verify yet: the message, and whether restarts wait."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.outside import Outside
from ottla_operator.planning.cluster.unverified_certificates import unverified, with_unverified
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

Document = dict[str, Any]
Desire = Callable[..., DesiredCluster]

PORTS = {f"demo-main-{number}-out": 30_000 + number for number in range(2)} | {"demo-out-bootstrap": 30_009}
BALANCERS = {name: "2001:DB8::1" for name in PORTS}
OLD, NEW = frozenset({"*.demo", "10.0.0.1", "2001:db8::1", "broker-0", "broker-1"}), "10.0.0.2"


@pytest.fixture
def desire(cluster_manifest: Callable[..., Document]) -> Desire:
    """Return a function from the settings of the listener for clients outside to a cluster of two brokers."""

    def of(known: Outside | None = None, /, **listener: Any) -> DesiredCluster:
        seen = Outside(node_ports=PORTS) if known is None else known
        declared = {"name": "out", "port": 9094, "tls": True, "type": "nodeport", **listener}
        cluster = Cluster.parse(cluster_manifest(spec={"tls": {}, "listeners": [declared]}, nodes=2))
        found = desired_cluster(cluster, lambda pool, at, _: kubernetes_objects.place(cluster, pool, at, seen))
        return replace(found, outside=seen)

    return of


def observed(desired: DesiredCluster, host_addresses: str = "10.0.0.1 10.0.0.2", **node: Any) -> ObservedCluster:
    """Return ready nodes on ``host_addresses`` that present the former certificate."""
    nodes = {
        it.name: replace(
            ObservedNode(
                name=it.name, state=NodeState.READY, host_address=host_address, certificate_names={"out": OLD}
            ),
            **node,
        )
        for it, host_address in zip(desired.nodes, host_addresses.split(), strict=True)
    }
    return ObservedCluster(outdated=(), nodes=nodes)


def test_broker_on_a_new_kubernetes_node_is_waited_for(desire: Desire) -> None:
    desired = desire()

    seen = with_unverified(desired, observed(desired), {"out": OLD | {NEW}})

    words = "listener out presents a certificate without 10.0.0.2, its advertised host"
    assert [it.unverified for it in seen.nodes.values()] == ["", words]
    waiting = unverified(desired, seen)
    assert waiting is not None
    assert waiting.reason == "CertificateOutdated"
    assert waiting.message == f"node demo-main-1: {words}, until it has read the next one, within about a minute"


def test_unsigned_certificate_delays_no_restart(desire: Desire) -> None:
    desired = desire()

    seen = with_unverified(desired, observed(desired, "10.0.0.2 10.0.0.3"), {"out": OLD})

    assert not any(it.unverified for it in seen.nodes.values())
    waiting = unverified(desired, seen)
    assert waiting is not None
    assert waiting.message.endswith("its advertised host, until another one is signed, as 1 more do")


@pytest.mark.parametrize(
    ("listener", "outside", "changes"),
    [
        pytest.param({}, None, {"host_address": "10.0.0.1"}, id="known-host-address"),
        pytest.param({}, None, {"host_address": ""}, id="unknown-host-address"),
        pytest.param({}, None, {"certificate_names": {}}, id="certificate-not-read"),
        pytest.param({}, None, {"state": NodeState.STARTING}, id="not-ready-anyway"),
        pytest.param({}, Outside(), {}, id="not-open-yet"),
        pytest.param({"tls": False}, None, {"certificate_names": {}}, id="in-the-clear"),
        pytest.param({"certificate": {"secretName": "mine"}}, None, {}, id="the-user-keeps-it"),
        pytest.param({"outside": {"advertisedHost": "broker-{node}"}}, None, {}, id="by-name"),
        pytest.param(
            {"type": "loadbalancer"}, Outside(ingresses=BALANCERS), {}, id="address-that-is-written-otherwise"
        ),
    ],
)
def test_no_broker_is_waited_for(
    desire: Desire, listener: Document, outside: Outside | None, changes: Document
) -> None:
    desired = desire(outside, **listener)
    seen = observed(desired, **changes)

    assert with_unverified(desired, seen, {"out": OLD | {NEW}}) == seen
    assert unverified(desired, seen) is None


@pytest.mark.parametrize(
    ("listener", "outside", "host"),
    [
        pytest.param({"outside": {"advertisedHost": "kafka-{node}"}}, None, "kafka-0", id="by-name"),
        pytest.param(
            {"type": "loadbalancer"},
            Outside(ingresses=dict.fromkeys(PORTS, "balancer.example")),
            "balancer.example",
            id="balancer",
        ),
        pytest.param({"certificate": {"issuerRef": {"name": "house"}}}, None, "10.0.0.2", id="by-cert-manager"),
    ],
)
def test_every_advertised_host_is_checked(
    desire: Desire, listener: Document, outside: Outside | None, host: str
) -> None:
    desired = desire(outside, **listener)

    waiting = unverified(desired, observed(desired))

    assert waiting is not None
    assert f"without {host}, its advertised host" in waiting.message
