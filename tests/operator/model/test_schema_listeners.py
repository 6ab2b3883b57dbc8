"""Admission of TLS, listeners and authorization of Clusters, without an API server."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.errors import ManifestError
from ottla_operator.model import schema
from ottla_operator.model.manifest import Cluster

Document = dict[str, Any]
Builder = Callable[..., Document]

OAUTH = {"type": "oauth", "issuer": "https://i", "audience": "a", "jwksUri": "https://i/keys"}


def given(*listeners: Document, **more: Any) -> Document:
    """Return a spec with TLS and ``listeners``; those without name and port are called ``a``, ``b``, ... in order."""
    named = [{"name": chr(97 + at), "port": 9094 + at, **it} for at, it in enumerate(listeners)]
    return {"tls": {}, "listeners": named, **more}


def authority(name: str = "clusterCa", **spec: Any) -> Document:
    return {"tls": {name: spec}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"tls": {}}, id="tls-alone"),
        pytest.param({"tls": {"clusterCa": {}, "clientsCa": {}}}, id="authorities-without-words"),
        pytest.param(authority(validityDays=2, renewalDays=1), id="shortest-validity"),
        pytest.param(authority(validityDays=36_500, renewalDays=3_650), id="longest-validity"),
        pytest.param(authority(validityDays=31), id="validity-above-the-renewal-that-is-absent"),
        pytest.param(authority(renewalDays=1_824), id="renewal-below-the-validity-that-is-absent"),
        pytest.param(authority(rotation={"revision": "r" * 63, "overlapSeconds": 2_592_000}), id="rotation"),
        pytest.param(authority(secretName="mine", renewalDays=5, rotation={"overlapSeconds": 9}), id="given"),
        pytest.param(
            {"tls": {"clusterCa": {"secretName": "a"}, "clientsCa": {"secretName": "b"}}}, id="two-given-authorities"
        ),
        pytest.param(given({}), id="smallest-listener"),
        pytest.param(given({}, {}, {}, {}, {}, {}), id="most-listeners"),
        pytest.param(given({"name": "a" * 15, "port": 1_024}), id="longest-name-and-least-port"),
        pytest.param(given({"name": "a1", "port": 65_535}), id="highest-port"),
        pytest.param(given({"port": 9092}), id="the-port-of-plaintext"),
        pytest.param(given({"tls": True}), id="tls"),
        pytest.param(given({"tls": True, "authentication": {"type": "tls"}}), id="certificates"),
        pytest.param(given({"authentication": {"type": "scram-sha-512"}}), id="passwords-in-the-clear"),
        pytest.param(given({"tls": True, "authentication": OAUTH}), id="tokens"),
        pytest.param(given({"tls": True, "certificate": {"secretName": "mine"}}), id="own-certificate"),
        pytest.param(given({"tls": True, "certificate": {"issuerRef": {"name": "i"}}}), id="issuer"),
        pytest.param(
            given({"tls": True, "certificate": {"issuerRef": {"name": "i", "kind": "ClusterIssuer", "group": "g"}}}),
            id="issuer-in-full",
        ),
        pytest.param({"tls": {}, "authorization": {}}, id="authorization-without-super-users"),
        pytest.param({"tls": {}, "authorization": {"superUsers": ["User:a", "User:CN=b c,O=d"]}}, id="super-users"),
    ],
)
def test_cluster_is_admitted_as_it_is(cluster_manifest: Builder, spec: Document) -> None:
    admitted = schema.admit(cluster_manifest(spec=spec))

    assert {key: admitted["spec"][key] for key in spec} == spec, "a default would be a difference for GitOps"
    assert Cluster.parse(admitted).tls is not None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"listeners": [{"name": "a", "port": 9092}]}, "listeners need spec.tls", id="listeners-alone"),
        pytest.param({"authorization": {}}, "authorization needs spec.tls", id="authorization-alone"),
        pytest.param(authority(validityDays=1), "at least 2", id="too-short"),
        pytest.param(authority(validityDays=36_501), "at most 36500", id="too-long"),
        pytest.param(authority(validityDays=30), "renewalDays must be less", id="renewed-at-once-by-default"),
        pytest.param(authority("clientsCa", renewalDays=1_825), "renewalDays must be less", id="renewed-at-once"),
        pytest.param(authority(rotation={"revision": "r" * 64}), "revision", id="too-long-revision"),
        pytest.param(authority(rotation={"overlapSeconds": 2_592_001}), "at most 2592000", id="too-long-overlap"),
        pytest.param(authority(secretName="m", rotation={"revision": "2"}), "change it there", id="given-and-rotated"),
        pytest.param(authority(secretName="m", validityDays=9), "change it there", id="given-with-validity"),
        pytest.param(authority(secretName="M"), "must match", id="no-name-of-a-secret"),
        pytest.param(
            {"tls": {"clusterCa": {"secretName": "a"}, "clientsCa": {"secretName": "a"}}}, "as a node", id="one"
        ),
        pytest.param(given(), "listeners", id="no-listeners"),
        pytest.param(given({}, {}, {}, {}, {}, {}, {}), "listeners", id="too-many-listeners"),
        pytest.param(given({"name": "a" * 16}), "name", id="too-long-name"),
        *(
            pytest.param(given({"name": name}), "must match", id=f"name-{name}")
            for name in ("1a", "A", "a-b", "a.b", "")
        ),
        *(
            pytest.param(given({"name": name}), "every node has", id=f"taken-{name}")
            for name in ("nodes", "controller", "http", "kafka")
        ),
        *(
            pytest.param(given({"port": port}), "nodes' own ports", id=f"taken-{port}") for port in (9091, 9093, 8080)
        ),
        pytest.param(given({"port": 1_023}), "at least 1024", id="port-of-root"),
        pytest.param(given({"port": 65_536}), "at most 65535", id="port-beyond-the-range"),
        pytest.param(given({}, {"port": 9094}), "the same port", id="same-port-twice"),
        pytest.param(given({"authentication": {"type": "tls"}}), "only present", id="certificates-in-the-clear"),
        pytest.param(
            given({"tls": False, "authentication": {"type": "tls"}}), "only present", id="certificates-without-tls"
        ),
        pytest.param(given({"certificate": {"secretName": "a"}}), "only be presented", id="certificate-in-the-clear"),
        pytest.param(given({"tls": True, "certificate": {}}), "not from both", id="certificate-from-nowhere"),
        pytest.param(
            given({"tls": True, "certificate": {"secretName": "a", "issuerRef": {"name": "b"}}}), "not from both",
            id="certificate-from-both",
        ),
        pytest.param(given({"authentication": {"type": "plain"}}), "must be one of scram-sha-512", id="unknown-type"),
        *(
            pytest.param(
                given({"authentication": {it: OAUTH[it] for it in OAUTH if it != absent}}), "needs all three",
                id=f"without-{absent}",
            )
            for absent in ("issuer", "audience", "jwksUri")
        ),
        pytest.param(
            given({"authentication": {"type": "scram-sha-512", "issuer": "i"}}), "belong to the type oauth",
            id="issuer-of-passwords",
        ),
        pytest.param(given({"authentication": {**OAUTH, "jwksUri": "http://i"}}), "must match", id="keys-in-the-clear"),
        *(
            pytest.param({"tls": {}, "authorization": {"superUsers": [name]}}, "must match", id=f"super-{name}")
            for name in ("admin", "User:", "User:a;User:b", "User: a", "User:a\n", "Group:a")
        ),
        *(
            pytest.param({"tls": {}, "authorization": {}, "config": {key: "x"}}, "remove them from config", id=key)
            for key in ("authorizer.class.name", "super.users")
        ),
    ],
)  # fmt: skip
def test_cluster_is_rejected(cluster_manifest: Builder, spec: Document, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(cluster_manifest(spec=spec))

    assert said in str(raised.value)


def test_names_are_there_once(cluster_manifest: Builder) -> None:
    with pytest.raises(ManifestError) as raised:
        schema.admit(
            cluster_manifest(
                spec=given({"name": "a"}, {"name": "a"}, authorization={"superUsers": ["User:a", "User:b", "User:a"]})
            )
        )

    assert {it.field: it.message for it in raised.value.violations} == {
        "spec.listeners[1]": "the list has name a already",
        "spec.authorization.superUsers[2]": "the list has 'User:a' already",
    }


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param({}, {"tls": {}}, id="added"),
        pytest.param({"tls": {}}, {}, id="removed"),
        pytest.param({"tls": {"clusterCa": {}}}, {}, id="removed-with-its-words"),
    ],
)
def test_tls_comes_and_goes_with_the_cluster(cluster_manifest: Builder, before: Document, now: Document) -> None:
    stored = schema.admit(cluster_manifest(spec=before))

    with pytest.raises(ManifestError) as raised:
        schema.admit(cluster_manifest(spec=now), stored)

    assert [it.field for it in raised.value.violations] == ["spec.tls"]


def test_listeners_may_change(cluster_manifest: Builder) -> None:
    stored = schema.admit(cluster_manifest(spec=given({}, {"tls": True})))
    now = given({"tls": True, "authentication": {"type": "tls"}}, authorization={}) | authority(renewalDays=5)

    assert schema.admit(cluster_manifest(spec=now), stored)["spec"]["listeners"] == now["listeners"]


def test_authorizer_of_the_config_stays_where_authorization_is_absent(cluster_manifest: Builder) -> None:
    config = {"authorizer.class.name": "a", "super.users": "User:b"}

    assert schema.admit(cluster_manifest(config=config, spec={"tls": {}}))["spec"]["config"] == config
