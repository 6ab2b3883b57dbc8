"""Admission of outside listeners and network policies of Clusters, without an API server."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.manifest import Cluster

Document = dict[str, Any]
Builder = Callable[..., Document]

PEERS = [{"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]


def listener(**words: Any) -> Document:
    return {"tls": {}, "listeners": [{"name": "out", "port": 9094, **words}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(listener(type="internal"), id="internal"),
        pytest.param(listener(type="nodeport"), id="nodeport"),
        pytest.param(listener(type="loadbalancer"), id="loadbalancer"),
        pytest.param(listener(type="nodeport", outside={}), id="without-words"),
        pytest.param(listener(type="nodeport", outside={"advertisedHost": "k.example"}), id="one-host"),
        pytest.param(listener(type="nodeport", outside={"advertisedHost": "{node}.K-1.example"}), id="host-of-nodes"),
        pytest.param(
            listener(
                type="loadbalancer",
                outside={"advertisedHost": "k-{node}", "annotations": {"a/b": "{node} c"}, "loadBalancerClass": "x"},
            ),
            id="fullest",
        ),
        pytest.param(listener(type="nodeport", name="n" * 14), id="longest-name"),
        pytest.param(listener(allowFrom=PEERS) | {"networkPolicy": {}}, id="peers-of-a-listener"),
        pytest.param(listener(allowFrom=[]) | {"networkPolicy": {}}, id="no-peers"),
        pytest.param({"networkPolicy": {"httpFrom": PEERS}}, id="peers-of-http"),
    ],
)
def test_cluster_is_admitted_as_it_is(cluster_manifest: Builder, spec: Document) -> None:
    admitted = schema.admit(cluster_manifest(spec=spec))

    assert {key: admitted["spec"][key] for key in spec} == spec, "a default would be a difference for GitOps"
    Cluster.parse(admitted)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(listener(type="ingress"), "must be one of internal, nodeport, loadbalancer", id="unknown-type"),
        pytest.param(listener(outside={}), "outside belongs to", id="outside-without-a-type"),
        pytest.param(listener(type="internal", outside={}), "outside belongs to", id="outside-of-an-internal-one"),
        pytest.param(listener(type="nodeport", name="n" * 15), "at most 14 characters", id="too-long-name"),
        pytest.param(
            listener(type="nodeport", outside={"loadBalancerClass": "x"}), "belongs to the type loadb", id="class"
        ),
        pytest.param(
            listener(type="loadbalancer", outside={"advertisedHost": "k.example"}),
            "write {node}",
            id="one-host-for-all",
        ),
        *(
            pytest.param(listener(type="nodeport", outside={"advertisedHost": host}), "must match", id=f"host-{host}")
            for host in ("", "a b", "a:1", "{id}", "a,b", "a\n", "http://a")
        ),
        pytest.param(listener(allowFrom=PEERS), "write {}", id="peers-without-a-policy"),
        pytest.param({"networkPolicy": {"allow": []}}, "known fields: httpFrom", id="unknown-field"),
    ],
)
def test_cluster_is_rejected(cluster_manifest: Builder, spec: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(cluster_manifest(spec=spec))

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("before", "now", "is_taken"),
    [
        pytest.param(None, "x", False, id="added"),
        pytest.param("x", None, False, id="removed"),
        pytest.param("x", "y", False, id="changed"),
        pytest.param("x", "x", True, id="kept"),
    ],
)
def test_class_of_load_balancers_stays(
    cluster_manifest: Builder, before: str | None, now: str | None, is_taken: bool
) -> None:
    def of(name: str | None) -> Document:
        outside = {} if name is None else {"outside": {"loadBalancerClass": name}}
        return cluster_manifest(spec=listener(type="loadbalancer", **outside))

    stored = schema.admit(of(before))

    if is_taken:
        schema.admit(of(now), stored)
    else:
        with pytest.raises(ManifestError, match="create another listener"):
            schema.admit(of(now), stored)


def test_type_may_change(cluster_manifest: Builder) -> None:
    stored = schema.admit(cluster_manifest(spec=listener(type="nodeport")))
    outside = {"loadBalancerClass": "x"}

    assert schema.admit(cluster_manifest(spec=listener(type="loadbalancer", outside=outside)), stored)
