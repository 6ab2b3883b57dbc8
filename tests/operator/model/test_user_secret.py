"""The Secret of a user: entries for every kind of client, and for every kind of listener."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.config.properties import parse_properties
from ottla.sasl.scram import ScramMechanism
from ottla_operator.model.certificates import Leaf
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import Credential, access_secret, credential_of, is_untouched

Document = dict[str, Any]
Builder = Callable[..., Document]

PASSWORD = 'a"b\\c é😀'
CREDENTIAL = Credential(password=PASSWORD, mechanism=ScramMechanism.SCRAM_SHA_512, iterations=5000, revision="r")
PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
PLAIN = ClientAccess(bootstrap_servers="a:1,b:2")
SASL_SSL = ClientAccess(bootstrap_servers="a:1", security_protocol="SASL_SSL", ca_pem=PEM)


@pytest.fixture
def alice(user_manifest: Builder) -> User:
    return User.parse(user_manifest(secret={"labels": {"team": "x"}, "annotations": {"a": "b"}}))


def test_plaintext_listener_needs_no_authentication(alice: User) -> None:
    entries = access_secret(alice, PLAIN, CREDENTIAL).entries

    assert entries["client.properties"] == "bootstrap.servers=a:1,b:2\nsecurity.protocol=PLAINTEXT\n"
    assert json.loads(entries["librdkafka.json"]) == {"bootstrap.servers": "a:1,b:2", "security.protocol": "plaintext"}
    assert {key: entries[key] for key in ("type", "provider", "bootstrap-servers", "username", "password")} == {
        "type": "kafka",
        "provider": "ottla",
        "bootstrap-servers": "a:1,b:2",
        "username": "alice",
        "password": PASSWORD,
    }
    assert (entries["securityProtocol"], entries["saslMechanism"]) == ("PLAINTEXT", "SCRAM-SHA-512")
    assert "ca.crt" not in entries


def test_sasl_ssl_listener_has_all_settings_for_java_and_librdkafka(alice: User) -> None:
    entries = access_secret(alice, SASL_SSL, CREDENTIAL).entries

    assert entries["ca.crt"] == PEM
    assert entries["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a\\"b\\\\c é😀";'
    )
    assert entries["client.properties"].splitlines() == [
        "bootstrap.servers=a:1",
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a\\\\"b\\\\\\\\c \\u00e9\\ud83d\\ude00";',
        "sasl.mechanism=SCRAM-SHA-512",
        "security.protocol=SASL_SSL",
        "ssl.truststore.certificates=" + PEM.replace("\n", "\\n"),
        "ssl.truststore.type=PEM",
    ]
    assert json.loads(entries["librdkafka.json"]) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "ssl.ca.pem": PEM,
    }


@pytest.mark.parametrize(("given", "mechanism"), [(None, "OAUTHBEARER"), ("GSSAPI", "GSSAPI")])
def test_secret_of_a_token_user_names_the_mechanism(user_manifest: Builder, given: str | None, mechanism: str) -> None:
    access = ClientAccess(bootstrap_servers="a:1", security_protocol="SASL_PLAINTEXT", mechanism=given)
    entries = access_secret(User.parse(user_manifest(type="oauth")), access, None).entries

    assert entries["saslMechanism"] == mechanism
    assert f"sasl.mechanism={mechanism}\n" in entries["client.properties"]
    assert "password" not in entries
    assert "sasl.password" not in entries["librdkafka.json"]


def test_template_and_own_marks_are_on_the_secret(alice: User) -> None:
    secret = access_secret(alice, PLAIN, CREDENTIAL)

    assert secret.labels == {"team": "x", "app.kubernetes.io/managed-by": "ottla-operator"}
    assert secret.annotations["a"] == "b"
    assert secret.belongs_to(alice.metadata)


def test_credential_is_read_back_from_its_secret(alice: User) -> None:
    overlapping = Credential(
        password="x",
        mechanism=ScramMechanism.SCRAM_SHA_256,
        iterations=4097,
        previous_iterations=4096,
        previous_until="2026-01-01T00:00:00Z",
    )
    for credential in (CREDENTIAL, overlapping):
        secret = access_secret(alice, PLAIN, credential)
        assert credential_of(secret) == credential
        assert is_untouched(alice, secret)
    assert credential_of(None) is None
    assert not is_untouched(alice, None)


def test_annotations_hold_no_password(alice: User) -> None:
    secret = access_secret(alice, SASL_SSL, CREDENTIAL)

    assert PASSWORD not in repr(secret)
    assert PASSWORD not in repr(CREDENTIAL)
    assert 'a\\"b' not in "".join(secret.annotations.values())


def test_certificate_is_for_java_and_librdkafka(user_manifest: Builder) -> None:
    bob = User.parse(user_manifest("bob", type="tls", authentication={"rotation": {"revision": "2"}}))
    leaf = Leaf(certificate=PEM, key="-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n")
    access = ClientAccess(bootstrap_servers="a:1", security_protocol="SSL", ca_pem=PEM)

    secret = access_secret(bob, access, None, leaf)

    assert (secret.entries["user.crt"], secret.entries["user.key"]) == (leaf.certificate, leaf.key)
    assert secret.entries["username"] == "CN=bob"
    assert secret.annotations["ottla.dev/certificate-revision"] == "2"
    assert parse_properties(secret.entries["client.properties"]) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": leaf.key,
        "ssl.keystore.certificate.chain": leaf.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM,
    }
    assert json.loads(secret.entries["librdkafka.json"]) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "ssl",
        "ssl.ca.pem": PEM,
        "ssl.certificate.pem": leaf.certificate,
        "ssl.key.pem": leaf.key,
    }
    assert "PRIVATE" not in repr(secret)
