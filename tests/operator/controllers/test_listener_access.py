"""Through which listener the operator and users connect, from a Cluster's spec and its Secrets."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.adapters.kubernetes.secret_store import KubernetesSecrets
from ottla_operator.controllers.listener_access import access_without_manifest, client_access, operator_access
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.certificates import CertificateIssuer
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Rejected
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant
from ottla_operator.ports.operator_access import OperatorAccess

Builder = Callable[..., dict[str, Any]]

LISTENERS = [
    {"name": "passwords", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}},
    {"name": "clear", "port": 9095, "authentication": {"type": "oauth"}},
    {
        "name": "certs",
        "port": 9096,
        "tls": True,
        "authentication": {"type": "tls"},
        "certificate": {"secretName": "mine"},
    },
]
ADDRESSES = [{"name": it["name"], "bootstrapServers": f"demo:{it['port']}"} for it in LISTENERS]


class World:
    """One Cluster and the Secrets of its namespace."""

    def __init__(self, api: Any, manifest: dict[str, Any]) -> None:
        manifest["metadata"].update(namespace="kafka", uid="u")
        self.document = {"status": {"clusterId": "c", "bootstrapServers": "demo:9094"}, **manifest}
        self.api = api
        self.host = KubernetesHost(api, "kafka", "ottla/broker:1")
        self.secrets = KubernetesSecrets(api, "kafka")

    @property
    def cluster(self) -> Cluster:
        return Cluster.parse(self.document)

    def write(self, name: str, entries: Mapping[str, str]) -> None:
        asyncio.run(self.secrets.write(Secret(name=name, entries=entries), self.cluster.metadata))

    def put(self, name: str, entries: Mapping[str, bytes]) -> None:
        """Write arbitrary bytes, as another client could."""
        data = {key: b64encode(value).decode() for key, value in entries.items()}
        metadata = {"name": name, "namespace": "kafka"}
        self.api.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def operator(self) -> OperatorAccess | None:
        return asyncio.run(operator_access(self.cluster, self.host))

    def user(self, authentication: str) -> ClientAccess | Rejected:
        return asyncio.run(client_access(self.cluster, authentication, self.secrets))


@pytest.fixture
def locked(api: Any, cluster_manifest: Builder) -> World:
    world = World(api, cluster_manifest(spec={"tls": {}, "listeners": LISTENERS}))
    world.document["status"]["listeners"] = ADDRESSES
    return world


@pytest.fixture
def plain(api: Any, cluster_manifest: Builder) -> World:
    return World(api, cluster_manifest())


def test_operator_uses_the_clients_listener_without_tls(plain: World) -> None:
    plain.document["status"]["bootstrapServers"] = "demo:9092"

    assert plain.operator() == OperatorAccess(bootstrap_servers="demo:9092")


def test_operator_uses_the_listener_of_nodes(locked: World) -> None:
    locked.write("demo-operator", {"client.properties": "security.protocol=SSL\nssl.keystore.key=secret\n"})

    access = locked.operator()

    assert access is not None
    assert access.bootstrap_servers == "demo-bootstrap.kafka.svc:9091"
    assert access.properties == {"security.protocol": "SSL", "ssl.keystore.key": "secret"}
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    "entries",
    [None, {"other": "x"}, {"client.properties": "a=\\uZZZZ"}, {"client.properties": "a=\udcff"}],
    ids=["no-secret", "no-properties", "damaged", "no-text"],
)
def test_error_names_the_secret_that_the_operator_lacks(locked: World, entries: Mapping[str, str] | None) -> None:
    if entries is not None:
        data = {key: text.encode(errors="surrogateescape") for key, text in entries.items()}
        locked.put("demo-operator", data)

    with pytest.raises(BrokerUnreachableError, match="Secret demo-operator"):
        locked.operator()


def test_cluster_without_an_address_has_no_access(plain: World, locked: World) -> None:
    for world in (plain, locked):
        world.document["status"] = {}
        assert world.operator() is None


def test_address_recorded_by_an_earlier_operator_is_used(plain: World) -> None:
    plain.document["status"] = {"bootstrapServers": "demo:9092"}

    assert plain.user("scram-sha-512") == ClientAccess(bootstrap_servers="demo:9092")


def test_user_has_address_protocol_and_trust_of_its_listener(locked: World) -> None:
    locked.write("demo-nodes", {"cluster-ca.crt": "CLUSTER", "listener-certs-ca.crt": "MINE"})

    assert [locked.user(it) for it in ("scram-sha-512", "tls", "oauth")] == [
        ClientAccess(bootstrap_servers="demo:9094", security_protocol="SASL_SSL", ca_pem="CLUSTER"),
        ClientAccess(bootstrap_servers="demo:9096", security_protocol="SSL", ca_pem="MINE"),
        ClientAccess(bootstrap_servers="demo:9095", security_protocol="SASL_PLAINTEXT"),
    ]


def test_publicly_trusted_certificate_has_no_trust_entry(locked: World) -> None:
    locked.write("demo-nodes", {"cluster-ca.crt": "CLUSTER"})

    assert locked.user("tls") == ClientAccess(bootstrap_servers="demo:9096", security_protocol="SSL")


def test_user_waits_for_the_certificate_of_nodes(locked: World) -> None:
    with pytest.raises(BrokerUnreachableError, match="Secret demo-nodes"):
        locked.user("scram-sha-512")


def test_user_waits_for_a_new_listener(locked: World) -> None:
    locked.document["status"]["listeners"] = ADDRESSES[1:]

    with pytest.raises(BrokerUnreachableError, match="listener passwords"):
        locked.user("scram-sha-512")
    locked.write("demo-operator", {"client.properties": "security.protocol=SSL\n"})
    assert locked.operator() is not None, "the operator needs no listener for clients"


def test_error_names_the_listeners_to_a_user_without_one(locked: World) -> None:
    locked.document["spec"]["listeners"] = LISTENERS[1:]

    rejection = locked.user("scram-sha-512")

    assert isinstance(rejection, Rejected)
    assert rejection.reason == "NoListener"
    assert "it has clear (oauth), certs (tls)" in rejection.message


ROOT = CertificateIssuer().authority("demo", "CA", now=instant("2026-01-01T00:00:00Z"), days=100).certificate
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ROOT}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="x";'
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}


def elsewhere(protocol: str, authentication: str) -> ClientAccess | Rejected:
    properties = {"security.protocol": protocol}
    properties |= TRUST if protocol.endswith("SSL") else {}
    properties |= LOGIN if protocol.startswith("SASL") else {}
    return access_without_manifest(OperatorAccess(bootstrap_servers="far:9", properties=properties), authentication)


@pytest.mark.parametrize("authentication", ["scram-sha-512", "tls", "tls-external", "oauth"])
def test_users_need_no_authentication_where_the_operator_needs_none(authentication: str) -> None:
    assert elsewhere("PLAINTEXT", authentication) == ClientAccess(bootstrap_servers="far:9")


@pytest.mark.parametrize(
    ("protocol", "authentication", "wanted"),
    [
        ("SSL", "scram-sha-512", "SASL_SSL"),
        ("SASL_SSL", "scram-sha-512", "SASL_SSL"),
        ("SASL_SSL", "tls-external", "SSL"),
        ("SSL", "oauth", "SASL_SSL"),
        ("SASL_PLAINTEXT", "scram-sha-512", "SASL_PLAINTEXT"),
    ],
)
def test_user_of_a_cluster_elsewhere_authenticates_by_its_own_type(
    protocol: str, authentication: str, wanted: str
) -> None:
    trusted = ROOT if wanted.endswith("SSL") else None

    assert elsewhere(protocol, authentication) == ClientAccess(
        bootstrap_servers="far:9", security_protocol=wanted, ca_pem=trusted
    )


def test_trust_of_the_operator_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(ROOT)
    properties = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}
    operator = OperatorAccess(bootstrap_servers="far:9", properties=properties)

    access = access_without_manifest(operator, "scram-sha-512")

    assert isinstance(access, ClientAccess)
    assert access.ca_pem == ROOT
    file.write_text("nothing")
    with pytest.raises(BrokerUnreachableError, match=r"ca\.pem"):
        access_without_manifest(operator, "scram-sha-512")


@pytest.mark.parametrize(
    ("protocol", "authentication", "reason"),
    [("SSL", "tls", "Unsupported"), ("SASL_PLAINTEXT", "tls-external", "NoListener")],
)
def test_user_of_a_cluster_elsewhere_gets_no_useless_secret(protocol: str, authentication: str, reason: str) -> None:
    rejection = elsewhere(protocol, authentication)

    assert isinstance(rejection, Rejected)
    assert rejection.reason == reason
