"""Addresses of brokers for clients outside: advertised addresses by type of listener, and unknown ones."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.outside_services import seen_outside
from ottla_operator.model.outside import Outside, broker_service, outside_bootstrap_service

Document = dict[str, Any]
Builder = Callable[..., Document]
Parse = Callable[..., Cluster]


@pytest.fixture
def parse(cluster_manifest: Builder) -> Parse:
    """Return a function from the settings of one listener, called ``out`` at port 9094, to a cluster of two brokers."""

    def of(nodes: int = 2, **listener: Any) -> Cluster:
        inside = {"name": "in", "port": 9093}
        spec = {"tls": {}, "listeners": [inside, {"name": "out", "port": 9094, "tls": True, **listener}]}
        return Cluster.parse(cluster_manifest(spec=spec, nodes=nodes, firstNodeId=5))

    return of


def advertised(cluster: Cluster, outside: Outside) -> list[str | None]:
    """Return the advertised address of each broker."""
    return [outside.advertised_addresses(cluster, cluster.pools[0], ordinal)["out"] for ordinal in range(cluster.nodes)]


def test_names_of_services_fit_into_host_names(cluster_manifest: Builder) -> None:
    listener = {"name": "l" * 14, "port": 9094, "type": "nodeport"}
    manifest = cluster_manifest("c" * 32, spec={"tls": {}, "listeners": [listener]})
    manifest["spec"]["pools"][0] |= {"name": "p" * 12, "nodes": 99}
    cluster = Cluster.parse(manifest)

    assert len(broker_service(cluster, cluster.pools[0], 99, cluster.listeners[0])) <= 63
    assert len(outside_bootstrap_service(cluster, cluster.listeners[0])) <= 63


PORTS = Outside(node_ports={"demo-main-0-out": 30_001, "demo-main-1-out": 30_002, "demo-out-bootstrap": 30_003})
BALANCERS = Outside(ingresses={"demo-main-0-out": "zero.example", "demo-main-1-out": "::1", "demo-out-bootstrap": "b"})


@pytest.mark.parametrize(
    ("listener", "outside", "brokers", "beginnings"),
    [
        pytest.param({"type": "nodeport"}, Outside(), [None, None], "", id="no-ports-yet"),
        pytest.param({"type": "nodeport"}, PORTS, [":30001", ":30002"], "", id="node-ports-without-host-addresses"),
        pytest.param(
            {"type": "nodeport"},
            Outside(node_ports=PORTS.node_ports, host_addresses=("10.0.0.1", "fd::2")),
            [":30001", ":30002"],
            "10.0.0.1:30003,[fd::2]:30003",
            id="node-ports",
        ),
        pytest.param(
            {"type": "nodeport", "outside": {"advertisedHost": "example.org"}},
            PORTS,
            ["example.org:30001", "example.org:30002"],
            "example.org:30003",
            id="ports-of-one-host",
        ),
        pytest.param(
            {"type": "nodeport", "outside": {"advertisedHost": "k-{node}.example.org"}},
            PORTS,
            ["k-5.example.org:30001", "k-6.example.org:30002"],
            "k-bootstrap.example.org:30003",
            id="ports-of-a-host-for-each-node",
        ),
        pytest.param({"type": "loadbalancer"}, Outside(), [None, None], "", id="no-balancers-yet"),
        pytest.param(
            {"type": "loadbalancer"}, BALANCERS, ["zero.example:9094", "[::1]:9094"], "b:9094", id="balancers"
        ),
        pytest.param(
            {"type": "loadbalancer", "outside": {"advertisedHost": "k-{node}"}},
            Outside(),
            ["k-5:9094", "k-6:9094"],
            "k-bootstrap:9094",
            id="balancers-with-names-that-are-known-before",
        ),
    ],
)
def test_advertised_addresses_by_type_of_listener(
    parse: Parse, listener: Document, outside: Outside, brokers: list[str | None], beginnings: str
) -> None:
    cluster = parse(**listener)

    assert advertised(cluster, outside) == brokers
    assert outside.bootstrap_addresses(cluster, cluster.listeners[1]) == beginnings


def test_services_without_an_address_are_named(parse: Parse) -> None:
    cluster = parse(type="loadbalancer")
    outside = Outside(ingresses={"demo-main-0-out": "zero.example"})

    assert outside.unknown(cluster, cluster.listeners[1]) == ["demo-out-bootstrap", "demo-main-1-out"]
    assert BALANCERS.unknown(cluster, cluster.listeners[1]) == []


def test_certificates_are_for_every_host(parse: Parse) -> None:
    outside = Outside(node_ports=PORTS.node_ports, host_addresses=("10.0.0.1", "fd::2"))

    assert set(outside.advertised_hosts(parse(type="nodeport"))) == {"10.0.0.1", "fd::2"}
    assert set(BALANCERS.advertised_hosts(parse(type="loadbalancer"))) == {"zero.example", "::1", "b"}
    named = parse(nodes=1, type="nodeport", outside={"advertisedHost": "k-{node}"})
    assert set(PORTS.advertised_hosts(named)) == {"k-5", "k-bootstrap"}


def test_hosts_are_written_as_certificates_say_them(parse: Parse) -> None:
    """Otherwise a matching certificate would not be recognized, and be issued again at each observation."""
    named = parse(nodes=1, type="nodeport", outside={"advertisedHost": "K-{node}.Example"})
    addresses = Outside(node_ports=PORTS.node_ports, host_addresses=("FD00:0::2",))

    assert set(PORTS.advertised_hosts(named)) == {"k-5.example", "k-bootstrap.example"}
    assert set(addresses.advertised_hosts(parse(type="nodeport"))) == {"fd00::2"}


def service(name: str, kind: str, listener: str = "out", **more: Any) -> Document:
    metadata = {"name": name, "labels": {"ottla.dev/listener": listener}}
    return {"metadata": metadata, "spec": {"type": kind, "ports": [{"port": 9094, **more}]}}


def test_ports_are_read_from_services_of_the_right_type(parse: Parse) -> None:
    services = [
        service("demo-main-0-out", "NodePort", nodePort=30_001),
        service("demo-main-1-out", "NodePort"),
        service("demo-out-bootstrap", "LoadBalancer", nodePort=30_003),
        service("demo-main-0-in", "NodePort", "in", nodePort=30_009),
        {"metadata": {"name": "demo-nodes"}, "spec": {"clusterIP": "None", "ports": []}},
    ]

    seen = seen_outside(parse(type="nodeport"), services, [], {"demo-main-1-out": 30_007, "demo-main-0-out": 1})

    assert seen.node_ports == {"demo-main-0-out": 30_001, "demo-main-1-out": 30_007}


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        pytest.param([], {}, id="none-yet"),
        pytest.param([{"ip": "10.0.0.9"}], {"demo-main-0-out": "10.0.0.9"}, id="address"),
        pytest.param([{"hostname": "h", "ip": "10.0.0.9"}, {"ip": "x"}], {"demo-main-0-out": "h"}, id="name-wins"),
    ],
)
def test_balancers_are_read_from_the_status(parse: Parse, ingress: list[Document], expected: dict[str, str]) -> None:
    found = {**service("demo-main-0-out", "LoadBalancer"), "status": {"loadBalancer": {"ingress": ingress}}}

    assert seen_outside(parse(type="loadbalancer"), [found], [], {}).ingresses == expected


def pod(address: str, broker: str = "true", **metadata: Any) -> Document:
    return {"metadata": {"labels": {"ottla.dev/broker": broker}, **metadata}, "status": {"hostIP": address}}


def test_host_addresses_are_of_brokers_that_stay(parse: Parse) -> None:
    pods = [
        pod("10.0.0.2"),
        pod("10.0.0.1"),
        pod("10.0.0.2"),
        pod("10.0.0.3", broker="false"),
        pod("10.0.0.4", deletionTimestamp="2026-01-01T00:00:00Z"),
        {"metadata": {"labels": {"ottla.dev/broker": "true"}}},
    ]

    assert seen_outside(parse(type="nodeport"), [], pods, {}).host_addresses == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize(
    ("pods", "host_addresses"),
    [
        ([pod("10.0.0.1")], ("10.0.0.1", "10.0.0.9", "fd::2")),
        ([pod("10.0.0.1"), pod("10.0.0.2")], ("10.0.0.1", "10.0.0.2")),
        ([], ("10.0.0.1", "10.0.0.9", "fd::2")),
    ],
    ids=["one is restarted", "both run, one elsewhere", "all are restarted"],
)
def test_advertised_host_addresses_are_kept_while_a_broker_is_restarted(
    parse: Parse, pods: list[Document], host_addresses: tuple[str, ...]
) -> None:
    known = {"out": "10.0.0.1:30003,10.0.0.9:30003,[fd::2]:30003", "in": "demo-bootstrap.kafka.svc:9093"}
    cluster = replace(parse(type="nodeport"), known_addresses=known)

    assert seen_outside(cluster, [], pods, {}).host_addresses == host_addresses
