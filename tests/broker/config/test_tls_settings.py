"""TLS settings of a listener: precedence of its own keys, and contradictions rejected in one line."""

import pytest

from ottla.config.node_config import NodeConfig
from ottla.config.tls_settings import listeners_with_tls, read_tls_settings
from ottla.errors import ConfigurationError

FILES = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/keys.pem"}


def test_settings_besides_the_certificate_have_kafkas_defaults() -> None:
    settings = read_tls_settings(FILES, "SSL")

    assert settings.versions == ("TLSv1.2", "TLSv1.3")
    assert (settings.client_auth, settings.verifies_host, settings.cipher_suites) == ("none", True, ())
    assert settings.key_store is not None
    assert settings.key_store.location == "/keys.pem"
    assert settings.trust_store is None


def test_key_of_the_listener_takes_precedence() -> None:
    own = {
        "listener.name.outside.ssl.keystore.location": "/outside.pem",
        "listener.name.outside.ssl.client.auth": "none",
    }
    settings = read_tls_settings({**FILES, "ssl.client.auth": "required", **own}, "OUTSIDE")

    assert settings.key_store is not None
    assert (settings.key_store.location, settings.client_auth) == ("/outside.pem", "none")


def test_empty_algorithm_accepts_a_certificate_for_any_name() -> None:
    assert not read_tls_settings({**FILES, "ssl.endpoint.identification.algorithm": ""}, "SSL").verifies_host


def test_listener_of_other_nodes_needs_no_certificate() -> None:
    assert read_tls_settings({}, "CONTROLLER", opened=False).key_store is None


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        pytest.param({}, "has no certificate: set ssl.keystore.type=PEM", id="no-certificate"),
        pytest.param(
            {**FILES, "ssl.client.auth": "required"},
            "ssl.client.auth=required and no trust store",
            id="required-without-trust-store",
        ),
        pytest.param(
            {**FILES, "ssl.client.auth": "requested"},
            "ssl.client.auth=requested and no trust store",
            id="requested-without-trust-store",
        ),
        pytest.param({**FILES, "ssl.client.auth": "maybe"}, "listener SSL: Invalid value maybe", id="bad-value"),
        pytest.param(
            {**FILES, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "has TLSv1.1, which is not secure", id="old"
        ),
        pytest.param({**FILES, "ssl.protocol": "SSLv3"}, "ssl.protocol=SSLv3 is not served", id="old-protocol"),
        pytest.param({**FILES, "ssl.keystore.type": "BKS"}, "ssl.keystore.type=BKS is not known", id="type"),
        pytest.param(
            {**FILES, "ssl.keystore.password": "x"}, "a PEM file has no password; that of its key", id="pem-password"
        ),
        pytest.param({"ssl.keystore.password": "x"}, "ssl.keystore.location is not", id="password-alone"),
        pytest.param({**FILES, "ssl.keystore.key": "k"}, "ssl.keystore.certificate.chain is missing", id="key-alone"),
        pytest.param(
            {"ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
            "set ssl.keystore.type=PEM",
            id="inline-no-pem",
        ),
        pytest.param(
            {**FILES, "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
            "are both set",
            id="inline-and-file",
        ),
        pytest.param(
            {**FILES, "ssl.endpoint.identification.algorithm": "LDAPS"}, "may be https, or empty", id="algorithm"
        ),
    ],
)
def test_contradicting_settings_are_rejected_with_one_line(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError) as rejected:
        read_tls_settings(properties, "SSL")

    assert said in str(rejected.value)
    assert "\n" not in str(rejected.value)


def node(**more: str) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listener.security.protocol.map": "CONTROLLER:SSL,INSIDE:SSL,OUTSIDE:PLAINTEXT",
        "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9094",
        "inter.broker.listener.name": "INSIDE",
        "log.dirs": "/data",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def test_broker_has_contexts_for_its_own_listeners_and_for_those_it_connects_to() -> None:
    assert listeners_with_tls(NodeConfig.from_properties({**node(), **FILES})) == ["CONTROLLER", "INSIDE"]


def test_tls_listener_without_certificate_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="listener INSIDE is for TLS and has no certificate"):
        NodeConfig.from_properties(node())


def test_repr_of_settings_and_stores_shows_no_secret() -> None:
    secret = "hush-hush"
    inline = {"ssl.keystore.type": "PEM", "ssl.keystore.key": secret, "ssl.keystore.certificate.chain": secret}
    settings = read_tls_settings({**inline, "ssl.key.password": secret}, "SSL")

    assert secret not in f"{settings!r} {settings.key_store!r} {settings}"
