"""SASL settings: per listener and mechanism, validated before the node starts, and never shown."""

import pytest

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError

PLAIN_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "CLIENTS://localhost:9092,CONTROLLER://localhost:9093,NODES://localhost:9094",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT,NODES:SASL_PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "NODES",
    "log.dirs": "/data",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.nodes.scram-sha-512.sasl.jaas.config": f'{SCRAM_JAAS} username="node" password="hunter2";',
}


def read(**changes: str | None) -> NodeConfig:
    merged = {**BASE, **{key.replace("__", "-").replace("_", "."): text for key, text in changes.items()}}
    return NodeConfig.from_properties({key: text for key, text in merged.items() if text is not None})


def test_each_listener_has_its_own_mechanisms() -> None:
    config = read(
        listener_name_clients_sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256",
        listener_name_clients_plain_sasl_jaas_config=f'{PLAIN_JAAS} user_alice="a" username="n" password="p";',
        connections_max_reauth_ms="60000",
        listener_name_clients_plain_connections_max_reauth_ms="1000",
        listener_name_nodes_sasl_server_max_receive_size="1000",
    )
    clients, nodes = config.sasl.listeners["CLIENTS"], config.sasl.listeners["NODES"]

    assert set(config.sasl.listeners) == {"CLIENTS", "NODES"}
    assert clients.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert clients.jaas_users == {"PLAIN": {"alice": "a"}}
    assert clients.reauth_ms_max == {"PLAIN": 1_000, "SCRAM-SHA-256": 60_000}
    assert nodes.mechanisms == ("SCRAM-SHA-512",)
    assert (clients.receive_bytes_max, nodes.receive_bytes_max) == (524_288, 1_000)
    assert not [line for line in config.warnings if "sasl" in line or "reauth" in line]


def test_node_logs_in_only_at_listeners_between_nodes() -> None:
    login = read().sasl.logins["NODES"]

    assert set(read().sasl.logins) == {"NODES"}
    assert (login.mechanism, login.user, login.password) == ("SCRAM-SHA-512", "node", "hunter2")


def test_broker_logs_in_at_remote_controllers() -> None:
    config = read(
        process_roles="broker",
        listeners="CLIENTS://localhost:9092,NODES://localhost:9094",
        listener_security_protocol_map="CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT",
        sasl_mechanism_controller_protocol="PLAIN",
        listener_name_controller_plain_sasl_jaas_config=f'{PLAIN_JAAS} username="n" password="p";',
    )

    assert config.sasl.logins["CONTROLLER"].mechanism == "PLAIN"
    assert set(config.sasl.listeners) == {"CLIENTS", "NODES"}


TOKEN = "file:///var/run/token%20of%20node"
WITH_TOKEN = {
    "sasl_enabled_mechanisms": "OAUTHBEARER",
    "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
    "sasl_oauthbearer_jwks_endpoint_url": "https://issuer/keys",
    "listener_name_nodes_oauthbearer_sasl_oauthbearer_token_endpoint_url": TOKEN,
    "org_apache_kafka_sasl_oauthbearer_allowed_urls": f"https://issuer/keys,{TOKEN}",
}
TOKEN_KEY = "listener_name_nodes_oauthbearer_sasl_oauthbearer_token_endpoint_url"


def test_node_logs_in_with_the_token_in_a_file() -> None:
    login = read(**WITH_TOKEN).sasl.logins["NODES"]

    assert (login.mechanism, login.token_path) == ("OAUTHBEARER", "/var/run/token of node")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({TOKEN_KEY: None}, "token.endpoint.url is missing", id="none"),
        pytest.param({TOKEN_KEY: "https://issuer/token"}, "nodes request no token endpoint", id="https"),
        pytest.param({TOKEN_KEY: "file:///other"}, "not in org.apache.kafka.sasl.oauthbearer.allowed.urls", id="other"),
        pytest.param(
            {
                TOKEN_KEY: "file://host/token",
                "org_apache_kafka_sasl_oauthbearer_allowed_urls": "https://issuer/keys,file://host/token",
            },
            "absolute/path",
            id="elsewhere",
        ),
    ],
)
def test_token_from_anything_but_an_allowed_file_is_rejected(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(**{**WITH_TOKEN, **changes})


JAAS_KEY = "listener_name_nodes_scram__sha__512_sasl_jaas_config"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"sasl_enabled_mechanisms": None}, "GSSAPI, which this release does not serve", id="default"),
        pytest.param({"sasl_enabled_mechanisms": ""}, "is empty", id="no-mechanism"),
        pytest.param({"sasl_enabled_mechanisms": "scram-sha-512"}, "does not serve", id="lower-case"),
        pytest.param({"sasl_mechanism_inter_broker_protocol": None}, "GSSAPI", id="default-among-nodes"),
        pytest.param({"sasl_mechanism_inter_broker_protocol": "PLAIN"}, "nodes.plain.sasl.jaas.config", id="no-jaas"),
        pytest.param({JAAS_KEY: None}, "nodes.scram-sha-512.sasl.jaas.config is missing", id="no-login"),
        pytest.param({JAAS_KEY: f'{SCRAM_JAAS} username="n";'}, "has no password", id="no-password"),
        pytest.param({JAAS_KEY: f"{SCRAM_JAAS};"}, "has no username and no password", id="neither"),
        pytest.param({JAAS_KEY: f'{PLAIN_JAAS} password="hunter2";'}, "another login module", id="wrong-module"),
        pytest.param({JAAS_KEY: f'{SCRAM_JAAS} password="hunter2"'}, "semi-colon", id="unreadable"),
        pytest.param(
            {"listener_name_clients_sasl_enabled_mechanisms": "PLAIN"},
            "PLAIN on listener CLIENTS has no users",
            id="plain",
        ),
        pytest.param(
            {"listener_name_nodes_sasl_enabled_mechanisms": "SCRAM-SHA-256"},
            "is to log in with SCRAM-SHA-512",
            id="both",
        ),
        pytest.param({"sasl_server_max_receive_size": "x"}, "Not a number", id="no-number"),
    ],
)
def test_incomplete_sasl_configuration_is_rejected(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        read(**changes)

    assert "hunter2" not in str(error.value)


def test_repr_of_settings_shows_no_secret() -> None:
    sasl = read().sasl

    assert "hunter2" not in f"{sasl!r}{sasl.logins['NODES']!r}{sasl.listeners['NODES']!r}"
