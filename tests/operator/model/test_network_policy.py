"""The NetworkPolicy of a Cluster, port by port."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.network_policy import OperatorPods, network_policy

Document = dict[str, Any]
Policy = Callable[..., Document]

OPERATOR = OperatorPods(namespace="ottla-system", labels={"app.kubernetes.io/name": "ottla-operator"})
TEAM: Document = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NODES: Document = {"podSelector": {"matchLabels": {"ottla.dev/cluster": "demo"}}}
OPERATORS: Document = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ottla-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "ottla-operator"}},
}


@pytest.fixture
def policy(cluster_manifest: Callable[..., Document]) -> Policy:
    def of(*listeners: Document, **words: Any) -> Document:
        described = {"tls": {}, "listeners": list(listeners)} if listeners else {}
        cluster = Cluster.parse(cluster_manifest(spec={**described, "networkPolicy": words}))
        return network_policy(cluster, OPERATOR)

    return of


def allowed_peers(policy: Document) -> dict[int, list[Document] | None]:
    """Return the allowed peers by port; None: all. A missing port is closed."""
    return {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}


def test_ports_between_nodes_are_closed_to_others(policy: Policy) -> None:
    found = policy({"name": "a", "port": 9094}, {"name": "b", "port": 9095, "allowFrom": [TEAM]})

    assert allowed_peers(found) == {
        9091: [NODES, OPERATORS],
        9093: [NODES, OPERATORS],
        9094: None,
        9095: [TEAM],
        8080: None,
    }
    assert found["spec"]["podSelector"] == NODES["podSelector"]
    assert found["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        pytest.param({}, {8080: None}, id="all-peers"),
        pytest.param({"httpFrom": [TEAM]}, {8080: [TEAM]}, id="some-peers"),
        pytest.param({"httpFrom": []}, {}, id="no-peers"),
    ],
)
def test_http_port_is_open_to_the_peers_of_the_spec(policy: Policy, peers: Document, expected: Document) -> None:
    found = allowed_peers(policy(**peers))

    assert {port: it for port, it in found.items() if port == 8080} == expected


def test_listener_without_peers_is_closed(policy: Policy) -> None:
    """An empty list of peers would admit all."""
    assert 9094 not in allowed_peers(policy({"name": "a", "port": 9094, "allowFrom": []}))


HOUSE: Document = {"issuerRef": {"name": "house"}}


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        pytest.param(
            {"type": "nodeport", "certificate": HOUSE, "allowFrom": [TEAM]}, [TEAM, OPERATORS], id="looked-at"
        ),
        pytest.param({"type": "nodeport", "certificate": HOUSE, "allowFrom": []}, [OPERATORS], id="no-other-peers"),
        pytest.param({"type": "nodeport", "certificate": HOUSE}, None, id="all-peers"),
        pytest.param({"type": "nodeport", "allowFrom": [TEAM]}, [TEAM], id="certificate-that-nodes-show-each-other"),
        pytest.param({"certificate": HOUSE, "allowFrom": [TEAM]}, [TEAM], id="clients-inside"),
    ],
)
def test_operator_may_connect_to_listeners_that_it_probes(
    policy: Policy, listener: Document, expected: list[Document] | None
) -> None:
    assert allowed_peers(policy({"name": "a", "port": 9094, "tls": True, **listener}))[9094] == expected


def test_nodes_without_tls_use_the_clients_listener(policy: Policy) -> None:
    assert set(allowed_peers(policy())) == {9092, 9093, 8080}
    assert allowed_peers(policy())[9092] is None


def test_every_rule_names_its_peers_or_admits_all(policy: Policy) -> None:
    rules = policy({"name": "a", "port": 9094, "allowFrom": []}, httpFrom=[])["spec"]["ingress"]

    assert all(rule.get("from", [NODES]) for rule in rules)
