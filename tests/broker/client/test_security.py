"""The client at secured listeners: one node with each security protocol, and every failure of authentication."""

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
LISTENERS = {
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
class SecuredNode:
    """A node with a listener for every protocol, and the credentials for them."""

    folder: Path
    ports: dict[str, int]
    authority: Any
    signer: Any

    def token(self, *, lifetime_s: int = 600) -> str:
        """Return a token for alice that the node accepts."""
        now = int(time.time())
        claims = {"sub": "alice", "iss": "https://issuer", "aud": "ottla", "iat": now - 10, "exp": now + lifetime_s}
        return jwt.encode(claims, self.signer, algorithm="ES256", headers={"kid": "tests"})

    def with_token(self, protocol: str, token: str) -> dict[str, str]:
        """Return properties with a file that has ``token``."""
        path = self.folder / "token.jwt"
        path.write_text(token + "\n")
        return self.properties(protocol) | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{TOKEN_MODULE};",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def endpoint(self, listener: str) -> Endpoint:
        return Endpoint("127.0.0.1", self.ports[listener])

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
    listener_properties: Callable[..., dict[str, str]],
    run_node: Callable[..., Any],
) -> Iterator[SecuredNode]:
    folder = tmp_path_factory.mktemp("locked")
    ports = {listener: free_port() for listener in LISTENERS}
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
        **listener_properties(folder, LISTENERS, ports, certificates),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "ottla",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.short.connections.max.reauth.ms": "1200",
    }
    for listener in ("login", "both", "short"):
        properties[f"listener.name.{listener}.plain.sasl.jaas.config"] = (
            f'{MODULES["PLAIN"]} required user_alice="{PASSWORD}";'
        )
    scram = [f"--add-scram={name}=[name=alice,password={PASSWORD}]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    running = run_node(properties, formatted=("--standalone", *scram))
    yield SecuredNode(folder=folder, ports=ports, authority=authority, signer=signer)
    assert PASSWORD not in running.log_text()


def roundtrip(bootstrap: str, security: ClientSecurity, topic: str) -> bool:
    """Produce and consume with our admin client, producer and consumer; return whether all records arrived."""
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
    ("listener", "mechanism"),
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
def test_produced_records_are_consumed_through_every_listener(
    node: SecuredNode, listener: str, mechanism: str | None
) -> None:
    more = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(node.folder / "client.pem")}
    security = node.security(LISTENERS[listener], mechanism, **(more if listener == "MUTUAL" else {}))
    assert roundtrip(node.at(listener), security, f"{listener}-{mechanism}".lower())


def test_token_authenticates_until_it_expires(node: SecuredNode) -> None:
    properties = node.with_token("SASL_PLAINTEXT", node.token())
    assert roundtrip(node.at("LOGIN"), ClientSecurity.from_properties(properties), "with-a-token")
    expired = node.token(lifetime_s=-100)
    said = rejection_message(node, "LOGIN", node.with_token("SASL_PLAINTEXT", expired), LoginFailedError)
    assert "with OAUTHBEARER" in said
    assert "invalid_token" in said
    assert expired not in said


def test_tokens_from_an_issuer_authenticate(node: SecuredNode, issuer: Any) -> None:
    issuer.gives(node.token(), expires_in=600)
    security = ClientSecurity.from_properties(issuer.properties())
    assert roundtrip(node.at("LOGIN"), security, "with-an-issuers-token")
    assert len(issuer.requests) == 1
    issuer.responses = [(400, b'{"error": "unauthorized_client"}')]
    security = ClientSecurity.from_properties(issuer.properties())
    with pytest.raises(NoTokenError, match="gives no token: it responded with 400, 'unauthorized_client'"):
        roundtrip(node.at("LOGIN"), security, "without-a-token")


def test_each_connection_requests_a_token_without_expiry_once(node: SecuredNode, issuer: Any) -> None:
    issuer.gives(node.token())
    security = ClientSecurity.from_properties(issuer.properties())

    async def connect() -> None:
        for _ in range(3):
            connection = await Connection.open(node.endpoint("LOGIN"), security=security)
            await connection.close()

    asyncio.run(connect())
    assert len(issuer.requests) == 3


def test_certificates_are_read_from_properties_or_pkcs12(node: SecuredNode) -> None:
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
def test_session_is_reauthenticated_before_it_expires(node: SecuredNode, issuer: Any, is_issued: bool) -> None:
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
            # The next request is sent after the session has expired, and starts with a reauthentication.
            await asyncio.sleep(1.4)
            await admin.cluster.metadata()
            assert await admin.cluster.node_connection(node_id) is connection
            return node_id

    assert asyncio.run(run()) == 1
    # Without expiry there is a token for each authentication: the first one and the renewals.
    assert len(issuer.requests) >= 3 if is_issued else not issuer.requests


def rejection_message(node: SecuredNode, listener: str, properties: Mapping[str, str], kind: type[Exception]) -> str:
    """Return the message of the failed connection with these properties; it must have no secret."""

    async def run() -> None:
        connection = await Connection.open(
            node.endpoint(listener), timeout_s=5, security=ClientSecurity.from_properties(properties)
        )
        try:
            async with AdminClient([node.endpoint(listener)], request_timeout_s=2) as admin:
                await admin.cluster.metadata()
        finally:
            await connection.close()

    with pytest.raises(kind) as caught:
        asyncio.run(run())
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_wrong_password_is_reported_at_once(node: SecuredNode, mechanism: str) -> None:
    properties = node.properties("SASL_PLAINTEXT", mechanism, password="wrong-secret")
    said = rejection_message(node, "LOGIN", properties, LoginFailedError)
    assert f"cannot log in at {node.at('LOGIN')} as alice with {mechanism}" in said
    assert "uthentication failed" in said
    assert "wrong-secret" not in said


def test_unsupported_mechanism_is_reported_with_the_supported_ones(node: SecuredNode) -> None:
    said = rejection_message(node, "BOTH", node.properties("SASL_SSL", "SCRAM-SHA-256"), LoginFailedError)
    assert "does not offer SCRAM-SHA-256; it offers PLAIN, SCRAM-SHA-512" in said


def test_authentication_at_a_listener_without_sasl_is_reported(node: SecuredNode) -> None:
    said = rejection_message(node, "OPEN", node.properties("SASL_PLAINTEXT", "PLAIN"), LoginFailedError)
    assert "that listener has no SASL" in said


def test_plaintext_to_a_tls_listener_is_identified(node: SecuredNode) -> None:
    said = rejection_message(node, "TLS", node.properties("PLAINTEXT"), BrokerUnreachableError)
    assert "without TLS" in said


def test_tls_to_a_plaintext_listener_is_identified(node: SecuredNode) -> None:
    said = rejection_message(node, "OPEN", node.properties("SSL"), BrokerUnreachableError)
    assert "if that listener has no TLS, set security.protocol to PLAINTEXT" in said


def test_listener_that_requires_sasl_is_identified(node: SecuredNode) -> None:
    said = rejection_message(node, "LOGIN", node.properties("PLAINTEXT"), BrokerUnreachableError)
    assert "if that listener requires SASL" in said


@pytest.mark.parametrize(
    ("listener", "more", "part"),
    [
        pytest.param("EXPIRED", {}, "has expired", id="expired"),
        pytest.param("OTHER", {}, "is for another name", id="wrong-name"),
        pytest.param("MUTUAL", {}, "demands a certificate of the client", id="no-client-certificate"),
        pytest.param("TLS", {"stranger": "ca"}, "an authority that this client does not trust", id="unknown-authority"),
        pytest.param("MUTUAL", {"stranger": "client"}, "does not accept this client's", id="strange-client"),
    ],
)
def test_certificate_errors_have_a_remedy(
    node: SecuredNode, new_authority: Callable[..., Any], listener: str, more: dict[str, str], part: str
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
    assert part in rejection_message(node, listener, properties, TlsFailedError)


def test_hostname_verification_can_be_disabled(node: SecuredNode) -> None:
    properties = node.properties("SSL") | {"ssl.endpoint.identification.algorithm": ""}
    assert asyncio.run(greet(node.endpoint("OTHER"), properties)) == 1


def test_changed_certificates_are_read_again(node: SecuredNode, new_authority: Callable[..., Any]) -> None:
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
        pytest.param({"security.protocol": "SASL_SSL"}, "the default is GSSAPI", id="no-mechanism"),
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
            "token from another program",
            id="no-token",
        ),
    ],
)
def test_invalid_properties_are_rejected_without_a_secret(properties: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientSecurity.from_properties(properties)
    assert part in str(caught.value)
    assert "p4ss" not in str(caught.value)


def test_error_names_the_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(ConfigurationError, match=r"client\.properties cannot be read"):
        ClientSecurity.from_file(path)
    path.write_text("security.protocol=NONE\n")
    with pytest.raises(ConfigurationError, match=r"client\.properties: security\.protocol=NONE"):
        ClientSecurity.from_file(path)


def test_repr_of_security_has_no_secret() -> None:
    said = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULES["PLAIN"]} required username="alice" password="p4ss";',
    }
    security = ClientSecurity.from_properties(said)
    assert "p4ss" not in repr(security) + str(security) + repr(security.login)
