"""Real nodes with a Cluster's listeners under TLS: authentication at each listener, and presented certificates.

The certificates are of stand-ins for the cluster's authorities: on a local host, Secrets are folders of files.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin_security import ScramSecret
from ottla.client.errors import ClientError
from ottla.client.security import ClientSecurity
from ottla.errors import ErrorCode, KafkaError
from ottla.sasl.scram import ScramMechanism, salted_password
from ottla.wire.acl_filter import AclFilter
from ottla_operator.adapters.kafka.ottla_admin import connector
from ottla_operator.adapters.local.host import PORT_ANNOTATION, LocalHost
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.controllers.cluster.reconcile import reconcile_cluster
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.conditions import Waiting
from ottla_operator.model.listeners import NODE_PORT, IssuerRef, Listener, ListenerCertificate
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import render_properties
from ottla_operator.ports.nodes import ObservedNode

Document = dict[str, Any]
Builder = Callable[..., Document]

pytestmark = pytest.mark.timeout(180)

PASSWORD = "wonderland"
POOLS = [
    {"name": "c", "nodes": 1, "roles": ["controller"], "storage": {"size": "1Gi"}},
    {"name": "b", "nodes": 1, "roles": ["broker"], "firstNodeId": 1, "storage": {"size": "1Gi"}},
]
LISTENERS = [
    {"name": "passwords", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}},
    {"name": "certs", "port": 9095, "tls": True, "authentication": {"type": "tls"}},
    {"name": "open", "port": 9096},
]


class World:
    """A cluster of two nodes in one state directory, its two authorities, and clients of each kind."""

    def __init__(self, path: Path, port: int, manifest: Document, new_authority: Callable[..., Any]) -> None:
        self.cluster_ca, self.clients_ca = new_authority("Cluster CA"), new_authority("Clients CA")
        manifest["metadata"]["annotations"] = {PORT_ANNOTATION: str(port)}
        manifest["spec"]["pools"] = POOLS
        self.cluster = Cluster.parse(manifest)
        self.host = LocalHost(StateDirectory(path / "state"))
        self._secrets = path / "state" / "secrets"
        self._port = port
        self._written = 0

    def give_certificates(self) -> str:
        """Rewrite the Secrets of nodes and operator; return the fingerprint of the nodes' certificate."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        node = self.cluster_ca.issue(hosts=("localhost", "127.0.0.1"))
        trusted = {"cluster-ca.crt": self.cluster_ca.pem, "clients-ca.crt": self.clients_ca.pem}
        self._write("demo-nodes", {"node.pem": node.both, **trusted})
        self._write("demo-operator", {"client.properties": render_properties(self.certified(self.cluster_ca))})
        der = x509.load_pem_x509_certificate(node.certificate.encode()).public_bytes(Encoding.DER)
        return sha256(der).hexdigest()

    def _write(self, name: str, entries: Mapping[str, str]) -> None:
        self._written += 1
        folder = self._secrets / f".{name}.{self._written}"
        folder.mkdir(parents=True)
        for entry, text in entries.items():
            (folder / entry).write_text(text, encoding="utf-8")
        (folder / "link").symlink_to(folder.name)
        (folder / "link").replace(self._secrets / name)

    def certified(self, authority: Any, name: str = "operator") -> dict[str, str]:
        """Return the properties of a client with a certificate of ``authority``."""
        issued = authority.issue(f"CN={name}", hosts=())
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key,
            "ssl.keystore.certificate.chain": issued.chain,
            **self.trusting(),
        }

    def trusting(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.cluster_ca.pem}

    def with_password(self, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
            **self.trusting(),
        }

    def client(self, port: int, properties: Mapping[str, str]) -> AdminClient:
        """Return a client of the broker; ``port`` counts from the broker's first port."""
        security = ClientSecurity.from_properties(properties)
        return AdminClient(f"localhost:{self._port + 10 + port}", security=security, request_timeout_s=10)

    def settle(self) -> ReconcileResult:
        async def run() -> ReconcileResult:
            while True:
                result = await reconcile_cluster(self.cluster, self.host, connector())
                if not isinstance(result.readiness, Waiting):
                    return result
                await asyncio.sleep(0.05)

        return asyncio.run(run())

    def look(self) -> Mapping[str, ObservedNode]:
        async def observe() -> Mapping[str, ObservedNode]:
            return (await self.host.observe(await self.host.desired(self.cluster))).nodes

        return asyncio.run(observe())


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, free_ports: Callable[..., int], new_authority: Callable[..., Any]
) -> Iterator[World]:
    manifest = {
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {"tls": {}, "listeners": LISTENERS, "authorization": {"superUsers": ["User:CN=admin"]}},
    }
    result = World(tmp_path_factory.mktemp("tls"), free_ports(2), manifest, new_authority)
    result.give_certificates()
    result.settle()
    yield result
    for name in ("demo-c-0", "demo-b-0"):
        asyncio.run(result.host.stop_node(name))


def ask(client: AdminClient) -> None:
    """Send requests that need permission to describe and alter the cluster."""

    async def run() -> None:
        async with client:
            await client.describe_acls(AclFilter())

    asyncio.run(run())


def test_nodes_and_operator_authenticate_with_their_certificates(world: World) -> None:
    result = world.settle()

    assert str(result.readiness.reason) == "Ready", result.readiness
    names = {it["name"]: (it["securityProtocol"], it["bootstrapServers"]) for it in result.facts["listeners"]}
    first = int(world.cluster.annotations[PORT_ANNOTATION]) + 10
    assert names == {
        "passwords": ("SASL_SSL", f"localhost:{first}"),
        "certs": ("SSL", f"localhost:{first + 4}"),
        "open": ("PLAINTEXT", f"localhost:{first + 5}"),
    }
    ask(world.client(3, world.certified(world.cluster_ca)))


@pytest.mark.parametrize("name", ["operator", "node", "alice"])
def test_certificate_of_the_clients_ca_is_rejected_by_listeners_of_nodes(world: World, name: str) -> None:
    with pytest.raises(ClientError):
        ask(world.client(3, world.certified(world.clients_ca, name)))


@pytest.mark.parametrize("name", ["alice", "admin", "ottla:node"])
def test_other_common_names_are_not_mapped_by_the_listener_of_nodes(world: World, name: str) -> None:
    with pytest.raises(ClientError):
        ask(world.client(3, world.certified(world.cluster_ca, name)))


def test_principal_of_a_client_certificate_is_its_whole_name(world: World) -> None:
    ask(world.client(4, world.certified(world.clients_ca, "admin")))
    for name in ("ottla:operator", "operator", "node"):
        with pytest.raises(KafkaError) as raised:
            ask(world.client(4, world.certified(world.clients_ca, name)))
        assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_certificate_of_nodes_is_rejected_by_listeners_for_clients(world: World) -> None:
    with pytest.raises(ClientError):
        ask(world.client(4, world.certified(world.cluster_ca, "admin")))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_password_authenticates_with_either_mechanism(world: World, mechanism: str) -> None:
    kind = ScramMechanism[mechanism.replace("-", "_")]
    salt, iterations = b"salt" * 4, 4_096
    salted = salted_password(kind, PASSWORD, salt, iterations)
    secret = ScramSecret(mechanism=kind, iterations=iterations, salt=salt, salted_password=salted)

    async def run() -> None:
        async with world.client(3, world.certified(world.cluster_ca)) as admin:
            await admin.alter_scram(upserts={"alice": [secret]})

    asyncio.run(run())
    with pytest.raises(KafkaError) as raised:
        ask(world.client(0, world.with_password(mechanism)))
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ClientError):
        ask(world.client(0, world.with_password(mechanism, "wrong")))


def test_listener_without_authentication_has_the_anonymous_principal(world: World) -> None:
    with pytest.raises(KafkaError) as raised:
        ask(world.client(5, {"security.protocol": "PLAINTEXT"}))

    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_certificates_of_outside_listeners_are_read(world: World) -> None:
    """Own certificates are read by a handshake without credentials; others are the nodes' certificate."""
    issuer = ListenerCertificate(issuer_ref=IssuerRef(name="house"))
    passwords, certs, _ = world.cluster.listeners
    ours = (replace(passwords, type=NODE_PORT, certificate=issuer), replace(certs, type=NODE_PORT))
    theirs = (replace(certs, type=NODE_PORT, certificate=issuer), replace(passwords, type=NODE_PORT))

    async def look(*listeners: Listener) -> Mapping[str, ObservedNode]:
        desired = await world.host.desired(world.cluster)
        chosen = replace(desired, cluster=replace(world.cluster, listeners=(*listeners, world.cluster.listeners[2])))
        return (await world.host.observe(chosen)).nodes

    names = frozenset({"localhost", "127.0.0.1"})
    assert asyncio.run(look(*ours))["demo-b-0"].certificate_names == {"passwords": names, "certs": names}
    assert asyncio.run(look(*ours))["demo-c-0"].certificate_names == {}, "no client comes to a controller"
    assert asyncio.run(look(*theirs))["demo-b-0"].certificate_names == {"passwords": names}, (
        "a listener that requires certificates is not probed"
    )


def test_each_node_presents_its_latest_certificate(world: World) -> None:
    given = world.give_certificates()

    deadline = time.monotonic() + 60
    shown: set[str | None] = set()
    while shown != {given} and time.monotonic() < deadline:
        shown = {node.certificate for node in world.look().values()}

    assert shown == {given}
    assert len(world.look()) == 2
    logs = [world.host.node_directory(name) / "node.log" for name in ("demo-c-0", "demo-b-0")]
    assert not [line for log in logs for line in log.read_text().splitlines() if "sent no request" in line]


def test_operator_without_a_certificate_waits(
    tmp_path: Path, cluster_manifest: Builder, new_authority: Callable[..., Any]
) -> None:
    world = World(tmp_path, 9_092, cluster_manifest(spec={"tls": {}}), new_authority)

    async def run() -> None:
        await world.host.operator_access(await world.host.desired(world.cluster))

    with pytest.raises(BrokerUnreachableError, match="demo-operator"):
        asyncio.run(run())
