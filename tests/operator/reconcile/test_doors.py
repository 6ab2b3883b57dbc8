"""By which door the operator and users come in, from what a Cluster says and what its Secrets hold."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.hosts.kubernetes import KubernetesHost
from ottla_operator.hosts.kubernetes_secrets import KubernetesSecrets
from ottla_operator.hosts.operator_access import OperatorAccess
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Refused
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.secret import Secret
from ottla_operator.reconcile.doors import client_access, operator_access

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
        self.host = KubernetesHost(api, "kafka", "ottla/broker:1")
        self.secrets = KubernetesSecrets(api, "kafka")

    @property
    def cluster(self) -> Cluster:
        return Cluster.parse(self.document)

    def write(self, name: str, entries: Mapping[str, str]) -> None:
        asyncio.run(self.secrets.write(Secret(name=name, entries=entries), self.cluster.metadata))

    def operator(self) -> OperatorAccess | None:
        return asyncio.run(operator_access(self.cluster, self.host))

    def user(self, authentication: str) -> ClientAccess | Refused:
        return asyncio.run(client_access(self.cluster, authentication, self.secrets))


@pytest.fixture
def locked(api: Any, cluster_manifest: Builder) -> World:
    world = World(api, cluster_manifest(spec={"tls": {}, "listeners": LISTENERS}))
    world.document["status"]["listeners"] = ADDRESSES
    return world


@pytest.fixture
def plain(api: Any, cluster_manifest: Builder) -> World:
    return World(api, cluster_manifest())


def test_operator_comes_in_where_clients_do_if_all_is_in_the_clear(plain: World) -> None:
    plain.document["status"]["bootstrapServers"] = "demo:9092"

    assert plain.operator() == OperatorAccess(bootstrap_servers="demo:9092")


def test_operator_comes_in_by_the_door_of_nodes(locked: World) -> None:
    locked.write("demo-operator", {"client.properties": "security.protocol=SSL\nssl.keystore.key=secret\n"})

    access = locked.operator()

    assert access is not None
    assert access.bootstrap_servers == "demo-bootstrap.kafka.svc:9091"
    assert access.properties == {"security.protocol": "SSL", "ssl.keystore.key": "secret"}
    assert "secret" not in repr(access)


@pytest.mark.parametrize("entries", [None, {"other": "x"}], ids=["no-secret", "no-properties"])
def test_operator_without_a_certificate_says_which_secret_it_lacks(
    locked: World, entries: Mapping[str, str] | None
) -> None:
    if entries is not None:
        locked.write("demo-operator", entries)

    with pytest.raises(BrokerUnreachableError, match="Secret demo-operator"):
        locked.operator()


def test_cluster_without_an_address_is_not_asked(plain: World, locked: World) -> None:
    for world in (plain, locked):
        world.document["status"] = {}
        assert world.operator() is None


def test_address_that_an_earlier_operator_wrote_counts(plain: World) -> None:
    plain.document["status"] = {"bootstrapServers": "demo:9092"}

    assert plain.user("scram-sha-512") == ClientAccess(bootstrap_servers="demo:9092")


def test_user_has_address_protocol_and_trust_of_its_door(locked: World) -> None:
    locked.write("demo-nodes", {"cluster-ca.crt": "CLUSTER", "listener-certs-ca.crt": "MINE"})

    assert [locked.user(it) for it in ("scram-sha-512", "tls", "oauth")] == [
        ClientAccess(bootstrap_servers="demo:9094", security_protocol="SASL_SSL", ca_pem="CLUSTER"),
        ClientAccess(bootstrap_servers="demo:9096", security_protocol="SSL", ca_pem="MINE"),
        ClientAccess(bootstrap_servers="demo:9095", security_protocol="SASL_PLAINTEXT"),
    ]


def test_certificate_that_everybody_trusts_comes_without_trust(locked: World) -> None:
    locked.write("demo-nodes", {"cluster-ca.crt": "CLUSTER"})

    assert locked.user("tls") == ClientAccess(bootstrap_servers="demo:9096", security_protocol="SSL")


def test_user_waits_for_the_certificate_of_nodes(locked: World) -> None:
    with pytest.raises(BrokerUnreachableError, match="Secret demo-nodes"):
        locked.user("scram-sha-512")


def test_user_waits_for_a_door_that_is_new(locked: World) -> None:
    locked.document["status"]["listeners"] = ADDRESSES[1:]

    with pytest.raises(BrokerUnreachableError, match="listener passwords"):
        locked.user("scram-sha-512")


def test_user_without_a_door_is_told_which_there_are(locked: World) -> None:
    locked.document["spec"]["listeners"] = LISTENERS[1:]

    refusal = locked.user("scram-sha-512")

    assert isinstance(refusal, Refused)
    assert refusal.reason == "NoListener"
    assert "it has clear (oauth), certs (tls)" in refusal.message
