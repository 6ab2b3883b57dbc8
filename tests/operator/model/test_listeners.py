"""The listeners of an admitted Cluster as typed values."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_operator.model import cluster_secrets
from ottla_operator.model.cluster_tls import Authority, ClusterTls
from ottla_operator.model.listeners import (
    PLAINTEXT,
    Authentication,
    IssuerRef,
    Listener,
    ListenerCertificate,
)
from ottla_operator.model.manifest import Authorization, Cluster

Document = dict[str, Any]
Builder = Callable[..., Document]


@pytest.fixture
def parse(cluster_manifest: Builder) -> Callable[..., Cluster]:
    return lambda **spec: Cluster.parse(cluster_manifest(spec=spec))


def test_cluster_without_listeners_in_the_spec_has_one_plain_listener(parse: Callable[..., Cluster]) -> None:
    cluster = parse()

    assert (cluster.tls, cluster.listeners, cluster.authorization) == (None, (PLAINTEXT,), None)
    assert (PLAINTEXT.port, PLAINTEXT.kafka_name, PLAINTEXT.security_protocol) == (9092, "PLAINTEXT", "PLAINTEXT")
    assert cluster.super_users == frozenset()


def test_tls_alone_changes_no_listener_for_clients(parse: Callable[..., Cluster]) -> None:
    cluster = parse(tls={})

    assert cluster.tls == ClusterTls(cluster_ca=Authority(), clients_ca=Authority())
    assert (Authority().validity_days, Authority().renewal_days, Authority().overlap_s) == (1_825, 30, 86_400)
    assert cluster.listeners == (PLAINTEXT,)


def test_authority_has_validity_renewal_and_overlap(parse: Callable[..., Cluster]) -> None:
    rotation = {"revision": "2", "overlapSeconds": 60}
    spec = {"validityDays": 90, "renewalDays": 10, "rotation": rotation}

    tls = parse(tls={"clusterCa": spec, "clientsCa": {"secretName": "mine"}}).tls

    assert tls is not None
    assert tls.cluster_ca == Authority(validity_days=90, renewal_days=10, rotation="2", overlap_s=60)
    assert tls.clients_ca == Authority(secret_name="mine")


def test_listener_is_what_its_manifest_says(parse: Callable[..., Cluster]) -> None:
    asked = {"type": "oauth", "issuer": "i", "audience": "a", "jwksUri": "https://k"}
    certificate = {"issuerRef": {"name": "x", "kind": "ClusterIssuer"}}
    described = {"name": "clients", "port": 9094, "tls": True, "authentication": asked, "certificate": certificate}

    (listener,) = parse(tls={}, listeners=[described]).listeners

    assert listener == Listener(
        name="clients",
        port=9094,
        has_tls=True,
        authentication=Authentication(type="oauth", issuer="i", audience="a", jwks_uri="https://k"),
        certificate=ListenerCertificate(issuer_ref=IssuerRef(name="x", kind="ClusterIssuer", group="cert-manager.io")),
    )
    assert listener.kafka_name == "CLIENTS"
    assert cluster_secrets.listener_pem(listener) == "listener-clients.pem"


@pytest.mark.parametrize(
    ("spec", "protocol", "authentication_type"),
    [
        ({}, "PLAINTEXT", None),
        ({"tls": True}, "SSL", None),
        ({"tls": True, "authentication": {"type": "tls"}}, "SSL", "tls"),
        ({"authentication": {"type": "scram-sha-512"}}, "SASL_PLAINTEXT", "scram-sha-512"),
        ({"tls": True, "authentication": {"type": "scram-sha-512"}}, "SASL_SSL", "scram-sha-512"),
        ({"tls": True, "authentication": {"type": "oauth"}}, "SASL_SSL", "oauth"),
    ],
)
def test_security_protocol_follows_from_the_listener(
    spec: Document, protocol: str, authentication_type: str | None
) -> None:
    listener = Listener.parse({"name": "a", "port": 9094, **spec})

    assert (listener.security_protocol, listener.authentication_type) == (protocol, authentication_type)


def test_nodes_and_operator_may_do_everything(parse: Callable[..., Cluster]) -> None:
    cluster = parse(tls={}, authorization={"superUsers": ["User:a"]})

    assert cluster.authorization == Authorization(super_users=frozenset({"User:a"}))
    assert cluster.super_users == {"User:a", "User:ottla:node", "User:ottla:operator"}


def test_super_users_of_the_config_are_kept(parse: Callable[..., Cluster]) -> None:
    config = {"super.users": "User:a;User:b"}

    assert parse(config=config).super_users == {"User:a", "User:b"}
    assert parse(config=config, tls={}).super_users == {"User:a", "User:b", "User:ottla:node", "User:ottla:operator"}


def test_secrets_are_named_after_their_cluster() -> None:
    names = cluster_secrets.cluster_ca_secret, cluster_secrets.clients_ca_secret
    assert [name("demo") for name in names] == ["demo-cluster-ca", "demo-clients-ca"]
    assert cluster_secrets.nodes_secret("demo") == "demo-nodes"
    assert cluster_secrets.operator_secret("demo") == "demo-operator"
