"""The client at doors with locks: a node of our own with each security protocol, and every way not to come in."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from jwt.algorithms import ECAlgorithm

from ottla.client.admin import AdminClient
from ottla.client.connection import Connection
from ottla.client.consumer import Consumer
from ottla.client.errors import BrokerUnreachableError, LoginFailedError, NoTokenError, TlsFailedError
from ottla.client.producer import Producer
from ottla.client.security import ClientSecurity
from ottla.errors import ConfigurationError
from ottla.types import Endpoint, TopicPartition

PASSWORD = "alice-secret"
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
DOORS = {
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
    "OTHER": "SSL",
}


@dataclass(kw_only=True)
class LockedNode:
    """A node with a listener for every protocol, and what there is to come in with."""

    folder: Path
    ports: dict[str, int]
    authority: Any
    signer: Any

    def token(self, *, lifetime_s: int = 600) -> str:
        """Return a token for alice that the node believes."""
        now = int(time.time())
        claims = {"sub": "alice", "iss": "https://issuer", "aud": "ottla", "iat": now - 10, "exp": now + lifetime_s}
        return jwt.encode(claims, self.signer, algorithm="ES256", headers={"kid": "tests"})

    def with_token(self, protocol: str, token: str) -> dict[str, str]:
        """Return properties that show ``token``, from a file of its own."""
        path = self.folder / "token.jwt"
        path.write_text(token + "\n")
        return self.properties(protocol) | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{TOKEN_MODULE};",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }

    def at(self, door: str) -> str:
        return f"127.0.0.1:{self.ports[door]}"

    def endpoint(self, door: str) -> Endpoint:
        return Endpoint("127.0.0.1", self.ports[door])

    def properties(
        self, protocol: str, mechanism: str | None = None, *, password: str = PASSWORD, **more: str
    ) -> dict[str, str]:
        said = {"security.protocol": protocol}
        if mechanism is not None:
            said["sasl.mechanism"] = mechanism
            said["sasl.jaas.config"] = f'{MODULES[mechanism]} required username="alice" password="{password}";'
        if protocol.endswith("SSL"):
            said |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}
        return said | {key.replace("_", "."): text for key, text in more.items()}

    def security(self, *said: Any, **more: str) -> ClientSecurity:
        return ClientSecurity.from_properties(self.properties(*said, **more))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory,
    free_port: Callable[[], int],
    authority: Any,
    door_properties: Callable[..., dict[str, str]],
    run_node: Callable[..., Any],
) -> Iterator[LockedNode]:
    folder = tmp_path_factory.mktemp("locked")
    ports = {door: free_port() for door in DOORS}
    certificates = {
        "client": authority.issue("CN=client"),
        "node": authority.issue(),
        "expired": authority.issue(days=(-10, -1)),
        "other": authority.issue(hosts=("broker.example", "10.1.2.3")),
    }
    signer = ec.generate_private_key(ec.SECP256R1())
    keys = folder / "keys.json"
    public = ECAlgorithm.to_jwk(signer.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**public, "kid": "tests", "use": "sig"}]}))
    properties = {
        **door_properties(folder, DOORS, ports, certificates),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "ottla",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.short.connections.max.reauth.ms": "1200",
    }
    for door in ("login", "both", "short"):
        properties[f"listener.name.{door}.plain.sasl.jaas.config"] = (
            f'{MODULES["PLAIN"]} required user_alice="{PASSWORD}";'
        )
    scram = [f"--add-scram={name}=[name=alice,password={PASSWORD}]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    running = run_node(properties, formatted=("--standalone", *scram))
    yield LockedNode(folder=folder, ports=ports, authority=authority, signer=signer)
    assert PASSWORD not in running.log_text()


def there_and_back(bootstrap: str, security: ClientSecurity, topic: str) -> bool:
    """Produce and consume with an admin, a producer and a consumer of our own; return whether it is all there."""
    values = [b"x" * 1000 + str(number).encode() for number in range(3000)]

    async def run() -> list[bytes | None]:
        async with (
            AdminClient(bootstrap, security=security) as admin,
            Producer(admin.cluster, create_topics=True) as producer,
        ):
            for value in values:
                await producer.send(topic, value)
            await producer.flush()
        consumer = Consumer(bootstrap, security=security)
        async with consumer:
            consumer.assign({TopicPartition(topic, 0): 0})
            read: list[bytes | None] = []
            while len(read) < len(values):
                read += [record.value for record in await consumer.fetch(max_wait_ms=500)]
            return read

    return asyncio.run(run()) == values


@pytest.mark.parametrize(
    ("door", "mechanism"),
    [
        pytest.param("OPEN", None, id="plaintext"),
        pytest.param("TLS", None, id="tls"),
        pytest.param("MUTUAL", None, id="mutual-tls"),
        pytest.param("LOGIN", "PLAIN", id="plain"),
        pytest.param("LOGIN", "SCRAM-SHA-256", id="scram-256"),
        pytest.param("LOGIN", "SCRAM-SHA-512", id="scram-512"),
        pytest.param("BOTH", "PLAIN", id="plain-under-tls"),
        pytest.param("BOTH", "SCRAM-SHA-512", id="scram-512-under-tls"),
    ],
)
def test_records_go_there_and_back(node: LockedNode, door: str, mechanism: str | None) -> None:
    more = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(node.folder / "client.pem")}
    security = node.security(DOORS[door], mechanism, **(more if door == "MUTUAL" else {}))
    assert there_and_back(node.at(door), security, f"{door}-{mechanism}".lower())


def test_token_lets_in_while_it_counts(node: LockedNode) -> None:
    properties = node.with_token("SASL_PLAINTEXT", node.token())
    assert there_and_back(node.at("LOGIN"), ClientSecurity.from_properties(properties), "with-a-token")
    expired = node.token(lifetime_s=-100)
    said = refusal(node, "LOGIN", node.with_token("SASL_PLAINTEXT", expired), LoginFailedError)
    assert "with OAUTHBEARER" in said
    assert "invalid_token" in said
    assert expired not in said


def test_tokens_from_an_issuer_let_in(node: LockedNode, issuer: Any) -> None:
    issuer.gives(node.token(), expires_in=600)
    security = ClientSecurity.from_properties(issuer.properties())
    assert there_and_back(node.at("LOGIN"), security, "with-an-issuers-token")
    assert len(issuer.asked) == 1
    issuer.answers = [(400, b'{"error": "unauthorized_client"}')]
    security = ClientSecurity.from_properties(issuer.properties())
    with pytest.raises(NoTokenError, match="gives no token: it answered 400, 'unauthorized_client'"):
        there_and_back(node.at("LOGIN"), security, "without-a-token")


def test_each_connection_asks_an_issuer_once_for_a_token_without_a_life(node: LockedNode, issuer: Any) -> None:
    issuer.gives(node.token())
    security = ClientSecurity.from_properties(issuer.properties())

    async def connect() -> None:
        for _ in range(3):
            connection = await Connection.open(node.endpoint("LOGIN"), security=security)
            await connection.close()

    asyncio.run(connect())
    assert len(issuer.asked) == 3


def test_certificates_may_stand_in_the_properties_or_in_pkcs12(node: LockedNode) -> None:
    issued = node.authority.issue("CN=client", password="of the key")
    inline = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": node.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key,
        "ssl.keystore.certificate.chain": issued.certificate,
        "ssl.key.password": "of the key",
    }
    plain = node.authority.issue("CN=client")
    certificate = load_pem_x509_certificate(plain.certificate.encode())
    key: Any = load_pem_private_key(plain.key.encode(), None)
    path = node.folder / "client.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client", key, certificate, None, BestAvailableEncryption(b"of the store")
        )
    )
    store = inline | {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(path)}
    store["ssl.keystore.password"] = "of the store"
    for key_name in ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password"):
        del store[key_name]
    for properties in (inline, store):
        assert asyncio.run(greet(node.endpoint("MUTUAL"), {"security.protocol": "SSL", **properties})) == 1


async def greet(endpoint: Endpoint, properties: Mapping[str, str]) -> int:
    """Return how many brokers the node at ``endpoint`` knows."""
    security = ClientSecurity.from_properties(properties)
    async with AdminClient([endpoint], request_timeout_s=5, security=security) as admin:
        return len((await admin.describe_cluster()).brokers)


@pytest.mark.parametrize("is_issued", [False, True], ids=["password", "token-of-an-issuer"])
def test_login_is_renewed_before_its_session_ends(node: LockedNode, issuer: Any, is_issued: bool) -> None:
    issuer.gives(node.token())

    async def run() -> int:
        security = node.security("SASL_PLAINTEXT", "SCRAM-SHA-256")
        if is_issued:
            security = ClientSecurity.from_properties(issuer.properties())
        async with AdminClient(node.at("SHORT"), security=security) as admin:
            first = await admin.cluster.metadata()
            node_id = first.brokers[0].node_id
            connection = await admin.cluster.node_connection(node_id)
            ends_s = asyncio.get_running_loop().time() + 2.5
            while asyncio.get_running_loop().time() < ends_s:
                await asyncio.gather(*(admin.cluster.metadata() for _ in range(5)))
                await asyncio.sleep(0.01)
            # The next request comes when the session is over, and begins with the renewal.
            await asyncio.sleep(1.4)
            await admin.cluster.metadata()
            assert await admin.cluster.node_connection(node_id) is connection
            return node_id

    assert asyncio.run(run()) == 1
    # Of a token without a life there is another for each login: the first one's and those of its renewals.
    assert len(issuer.asked) >= 3 if is_issued else not issuer.asked


def refusal(node: LockedNode, door: str, properties: Mapping[str, str], kind: type[Exception]) -> str:
    """Return why a client with these properties does not come in; nothing secret may be in it."""

    async def run() -> None:
        connection = await Connection.open(
            node.endpoint(door), timeout_s=5, security=ClientSecurity.from_properties(properties)
        )
        try:
            async with AdminClient([node.endpoint(door)], request_timeout_s=2) as admin:
                await admin.cluster.metadata()
        finally:
            await connection.close()

    with pytest.raises(kind) as caught:
        asyncio.run(run())
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_wrong_password_is_said_at_once(node: LockedNode, mechanism: str) -> None:
    properties = node.properties("SASL_PLAINTEXT", mechanism, password="wrong-secret")
    said = refusal(node, "LOGIN", properties, LoginFailedError)
    assert f"cannot log in at {node.at('LOGIN')} as alice with {mechanism}" in said
    assert "uthentication failed" in said
    assert "wrong-secret" not in said


def test_mechanism_that_is_not_offered_is_said_with_those_that_are(node: LockedNode) -> None:
    said = refusal(node, "BOTH", node.properties("SASL_SSL", "SCRAM-SHA-256"), LoginFailedError)
    assert "does not offer SCRAM-SHA-256; it offers PLAIN, SCRAM-SHA-512" in said


def test_login_where_nobody_asks_for_one_is_said(node: LockedNode) -> None:
    said = refusal(node, "OPEN", node.properties("SASL_PLAINTEXT", "PLAIN"), LoginFailedError)
    assert "that listener has no SASL" in said


def test_listener_with_tls_is_told_apart(node: LockedNode) -> None:
    said = refusal(node, "TLS", node.properties("PLAINTEXT"), BrokerUnreachableError)
    assert "without TLS" in said


def test_listener_without_tls_is_told_apart(node: LockedNode) -> None:
    said = refusal(node, "OPEN", node.properties("SSL"), BrokerUnreachableError)
    assert "if that listener has no TLS, set security.protocol to PLAINTEXT" in said


def test_listener_that_wants_a_login_is_told_apart(node: LockedNode) -> None:
    said = refusal(node, "LOGIN", node.properties("PLAINTEXT"), BrokerUnreachableError)
    assert "if that listener wants a login" in said


@pytest.mark.parametrize(
    ("door", "more", "part"),
    [
        pytest.param("EXPIRED", {}, "has expired", id="expired"),
        pytest.param("OTHER", {}, "is for another name", id="wrong-name"),
        pytest.param("MUTUAL", {}, "demands a certificate of the client", id="no-client-certificate"),
        pytest.param("TLS", {"stranger": "ca"}, "an authority that this client does not trust", id="unknown-authority"),
        pytest.param("MUTUAL", {"stranger": "client"}, "does not accept this client's", id="strange-client"),
    ],
)
def test_certificates_that_do_not_fit_are_explained(
    node: LockedNode, new_authority: Callable[..., Any], door: str, more: dict[str, str], part: str
) -> None:
    properties = node.properties("SSL")
    stranger = new_authority("Somebody else")
    if more.get("stranger") == "ca":
        path = node.folder / "stranger.pem"
        path.write_text(stranger.pem)
        properties["ssl.truststore.location"] = str(path)
    if more.get("stranger") == "client":
        path = node.folder / "stranger-client.pem"
        path.write_text(stranger.issue("CN=client").both)
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    assert part in refusal(node, door, properties, TlsFailedError)


def test_name_is_not_checked_where_that_is_switched_off(node: LockedNode) -> None:
    properties = node.properties("SSL") | {"ssl.endpoint.identification.algorithm": ""}
    assert asyncio.run(greet(node.endpoint("OTHER"), properties)) == 1


def test_certificates_that_change_are_read_again(node: LockedNode, new_authority: Callable[..., Any]) -> None:
    path = node.folder / "changing.pem"
    path.write_text(new_authority("Somebody else").pem)
    security = ClientSecurity.from_properties(node.properties("SSL") | {"ssl.truststore.location": str(path)})

    async def run() -> None:
        with pytest.raises(TlsFailedError, match="does not trust"):
            await Connection.open(node.endpoint("TLS"), security=security)
        path.write_text(node.authority.pem)
        connection = await Connection.open(node.endpoint("TLS"), security=security)
        await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("properties", "part"),
    [
        pytest.param({"security.protocol": "TLS"}, "security.protocol=TLS is not known", id="protocol"),
        pytest.param({"security.protocol": "SASL_SSL"}, "GSSAPI is what it is unless it is set", id="no-mechanism"),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is missing", id="no-jaas"
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{MODULES["PLAIN"]} required password="p4ss";',
            },
            "sasl.jaas.config has no username",
            id="no-user",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{MODULES["PLAIN"]} required username="a" password="p4ss";',
            },
            "another login module than sasl.mechanism=SCRAM-SHA-512 needs",
            id="other-module",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{TOKEN_MODULE};",
            },
            "a token that somebody else gets",
            id="no-token",
        ),
    ],
)
def test_properties_that_do_not_fit_are_refused_without_a_secret(properties: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientSecurity.from_properties(properties)
    assert part in str(caught.value)
    assert "p4ss" not in str(caught.value)


def test_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(ConfigurationError, match=r"client\.properties cannot be read"):
        ClientSecurity.from_file(path)
    path.write_text("security.protocol=NONE\n")
    with pytest.raises(ConfigurationError, match=r"client\.properties: security\.protocol=NONE"):
        ClientSecurity.from_file(path)


def test_security_never_prints_itself() -> None:
    said = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULES["PLAIN"]} required username="alice" password="p4ss";',
    }
    security = ClientSecurity.from_properties(said)
    assert "p4ss" not in repr(security) + str(security) + repr(security.login)
