"""A whole server.properties: dependent defaults, rejected contradictions, warnings for ignored keys."""

import pytest

from ottla.config.listeners import Listener, QuorumVoter
from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.types import Endpoint

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
BROKER = {**COMBINED, "process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
CONTROLLER = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://:9093"}
PLAINTEXT = Listener("PLAINTEXT", "PLAINTEXT", "", 9092)
QUORUM = Listener("CONTROLLER", "PLAINTEXT", "", 9093)


def test_combined_node_gets_kafkas_defaults() -> None:
    config = NodeConfig.from_properties(COMBINED)

    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert config.listeners == (PLAINTEXT, QUORUM)
    assert config.broker_listeners == config.advertised_listeners == (PLAINTEXT,)
    assert config.controller_listeners == config.advertised_controller_listeners == (QUORUM,)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.controller_quorum_bootstrap_servers == (Endpoint("localhost", 9093),)
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.metadata_log_dir == "/tmp/kafka-logs"
    assert config.broker_session_timeout_ms == 9000
    assert config.warnings == ()


def test_broker_alone_has_no_controller_listener() -> None:
    config = NodeConfig.from_properties(BROKER)

    assert config.controller_listeners == config.advertised_controller_listeners == ()


def test_controller_alone_advertises_nothing_to_clients() -> None:
    config = NodeConfig.from_properties(CONTROLLER)

    assert config.advertised_listeners == ()
    assert config.advertised_controller_listeners == (QUORUM,)


def test_advertised_listeners_replace_the_addresses_that_the_node_binds() -> None:
    config = NodeConfig.from_properties(
        {
            **COMBINED,
            "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "advertised.listeners": "PLAINTEXT://broker.example:1,CONTROLLER://quorum.example:2",
        }
    )

    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://broker.example:1"]
    assert [str(listener) for listener in config.advertised_controller_listeners] == ["CONTROLLER://quorum.example:2"]


def test_voters_name_the_quorum_where_bootstrap_servers_do_not() -> None:
    properties = {**COMBINED, "controller.quorum.voters": "1@localhost:9093"}
    del properties["controller.quorum.bootstrap.servers"]

    config = NodeConfig.from_properties(properties)

    assert config.controller_quorum_voters == (QuorumVoter(1, Endpoint("localhost", 9093)),)


@pytest.mark.parametrize(
    ("directories", "log_dirs", "metadata_log_dir"),
    [
        pytest.param({"log.dir": "/x"}, ("/x",), "/x", id="log-dir"),
        pytest.param({"log.dirs": "/a,/b", "log.dir": "/x"}, ("/a", "/b"), "/a", id="log-dirs-win"),
        pytest.param({"log.dirs": "/a", "metadata.log.dir": "/m"}, ("/a",), "/m", id="metadata-in-its-own-directory"),
    ],
)
def test_directories_follow_kafkas_rules(
    directories: dict[str, str], log_dirs: tuple[str, ...], metadata_log_dir: str
) -> None:
    config = NodeConfig.from_properties({**COMBINED, **directories})

    assert (config.log_dirs, config.metadata_log_dir) == (log_dirs, metadata_log_dir)


@pytest.mark.parametrize(
    ("entries", "cordoned"),
    [("", ()), ("/b", ("/b",)), ("*", ("/a", "/b"))],
    ids=["none", "one", "all"],
)
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_directories_are_cordoned_by_name_or_all(entries: str, cordoned: tuple[str, ...], is_dynamic: bool) -> None:
    change = {"cordoned.log.dirs": entries}
    config = NodeConfig.from_properties({**COMBINED, "log.dirs": "/a,/b", **({} if is_dynamic else change)})
    if is_dynamic:
        config = config.with_dynamic(change)

    assert config.cordoned_directories == cordoned
    assert config.warnings == ()


def test_broker_id_stands_for_node_id() -> None:
    properties = {**COMBINED, "broker.id": "5"}
    del properties["node.id"]

    config = NodeConfig.from_properties(properties)

    assert config.node_id == 5
    assert config.originals["node.id"] == config.originals["broker.id"] == "5"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"node.id": None}, 'Missing required configuration "node.id"', id="no-node-id"),
        pytest.param({"process.roles": None}, 'Missing required configuration "process.roles"', id="no-roles"),
        pytest.param({"broker.id": "2"}, "node.id=1 and broker.id=2 differ", id="two-ids"),
        pytest.param({"node.id": "x"}, "Not a number of type INT", id="id-is-no-number"),
        pytest.param({"controller.listener.names": None}, "controller.listener.names", id="no-controller-listener"),
        pytest.param({"listeners": "PLAINTEXT://:9092"}, "does not open", id="controller-listener-not-opened"),
        pytest.param({"process.roles": "broker"}, "does not run a controller", id="broker-opens-the-quorums-listener"),
        pytest.param(
            {"process.roles": "controller"}, "may only have those of", id="controller-opens-a-brokers-listener"
        ),
        pytest.param(
            {"listeners": "CONTROLLER://:9093"}, "at least one broker advertised", id="no-listener-for-clients"
        ),
        pytest.param({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"}, "meta-address", id="meta-address"),
        pytest.param({"inter.broker.listener.name": "FOO"}, "not found in", id="inter-broker-unknown"),
        pytest.param({"inter.broker.listener.name": "CONTROLLER"}, "valid options", id="inter-broker-is-quorum"),
        pytest.param(
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of",
            id="inter-broker-twice",
        ),
        pytest.param({"controller.quorum.bootstrap.servers": None}, "cannot be found", id="no-quorum"),
        pytest.param({"controller.quorum.voters": "2@h:1"}, "must be included", id="not-among-its-voters"),
        pytest.param({"log.dirs": ""}, "must not be empty", id="no-directory"),
        pytest.param(
            {"log.dirs": "/a,/b", "cordoned.log.dirs": "/a,/c"},
            "Missing entries : /c",
            id="cordons-an-unknown-directory",
        ),
        pytest.param({"cordoned.log.dirs": "*,/a"}, "must not contain other values", id="cordons-all-and-one"),
        pytest.param({"replica.lag.time.max.ms": "499"}, r"replica\.fetch\.wait\.max\.ms=500", id="wait-above-lag"),
        pytest.param({"broker.heartbeat.interval.ms": "4501"}, "at most half", id="heartbeat-above-half-session"),
        pytest.param({"replica.selector.class": "com.example.Mine"}, "would not call", id="unknown-selector"),
        pytest.param({"queued.max.request.bytes": "104857599"}, "never be read", id="queue-below-largest-request"),
        pytest.param({"max.connections.per.ip": "0"}, "overrides property", id="no-connection-at-all"),
        pytest.param({"max.connections.per.ip.overrides": "a:x"}, "host:count", id="bad-override"),
        pytest.param({"log.retention.hours": "0"}, "unlimited", id="no-retention"),
        pytest.param({"log.roll.ms": "0"}, "greater than or equal to 1", id="no-roll"),
        pytest.param({"offsets.topic.compression.codec": "5"}, "not a codec", id="codec-too-large"),
        pytest.param({"ottla.admin.listener": "8080"}, r"ottla\.admin\.listener", id="admin-port-alone"),
        ({"group.consumer.session.timeout.ms": "44999"}, "must be at most group.consumer.session.timeout.ms=44999"),
        ({"group.consumer.session.timeout.ms": "60001"}, "must be at most group.consumer.max.session.timeout.ms=60000"),
        (
            {"group.consumer.min.session.timeout.ms": "1", "group.consumer.session.timeout.ms": "5000"},
            "must be less than group.consumer.session.timeout.ms=5000",
        ),
        ({"group.share.session.timeout.ms": "44999"}, "must be at most group.share.session.timeout.ms=44999"),
        ({"group.share.record.lock.duration.ms": "60001"}, "at most group.share.max.record.lock.duration.ms=60000"),
        (
            {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"},
            "must be less than group.share.session.timeout.ms=5000",
        ),
        ({"group.streams.session.timeout.ms": "60001"}, "at most group.streams.max.session.timeout.ms=60000"),
        ({"group.streams.num.standby.replicas": "3"}, "at most group.streams.max.standby.replicas=2"),
        (
            {"group.streams.min.session.timeout.ms": "1", "group.streams.session.timeout.ms": "5000"},
            "must be less than group.streams.session.timeout.ms=5000",
        ),
        ({"group.consumer.assignors": "org.example.Mine"}, "group.consumer.assignors has org.example.Mine"),
    ],
)
def test_contradiction_is_rejected(changes: dict[str, str | None], message: str) -> None:
    properties = {key: value for key, value in {**COMBINED, **changes}.items() if value is not None}

    with pytest.raises(ConfigurationError, match=message):
        NodeConfig.from_properties(properties)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"replica.lag.time.max.ms": "500"}, id="wait-equals-lag"),
        pytest.param({"broker.heartbeat.interval.ms": "4500"}, id="heartbeat-equals-half-session"),
        pytest.param(
            {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}, id="kafkas-selector"
        ),
        pytest.param({"queued.max.request.bytes": "104857600"}, id="queue-equals-largest-request"),
        pytest.param({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "::1:5"}, id="overridden"),
        pytest.param({"log.roll.ms": "1"}, id="roll-every-millisecond"),
    ],
)
def test_value_at_its_bound_is_accepted(changes: dict[str, str]) -> None:
    assert NodeConfig.from_properties({**COMBINED, **changes}).node_id == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"authorizer.class.name": "org.example.A"}, id="authorizer"),
        pytest.param({"remote.log.storage.system.enable": "true"}, id="tiered-storage"),
        pytest.param({"create.topic.policy.class.name": "org.example.P"}, id="policy"),
        pytest.param({"config.providers": "file"}, id="config-providers"),
        pytest.param(
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"},
            id="kerberos",
        ),
    ],
)
def test_key_whose_guarantee_would_be_dropped_is_rejected(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="this release"):
        NodeConfig.from_properties({**COMBINED, **changes})


def test_key_without_effect_is_named_in_a_warning() -> None:
    config = NodeConfig.from_properties({**COMBINED, "num.io.threads": "16", "no.such.key": "1"})

    assert len(config.warnings) == 2
    assert config.warnings[0].startswith("num.io.threads=16 has no effect in this release.")
    assert config.warnings[1].startswith("no.such.key is not a key")


def test_key_at_its_default_needs_no_warning() -> None:
    assert NodeConfig.from_properties({**COMBINED, "num.io.threads": "8"}).warnings == ()


def test_secret_is_not_shown_in_a_warning() -> None:
    config = NodeConfig.from_properties({**COMBINED, "sasl.oauthbearer.client.credentials.client.secret": "hunter2"})

    assert "hunter2" not in config.warnings[0]


def test_dynamic_values_override_the_file() -> None:
    config = NodeConfig.from_properties(COMBINED)

    changed = config.with_dynamic({"max.connections": "7", "log.segment.bytes": "9999999"})

    assert changed.max_connections == 7
    assert config.max_connections == 2**31 - 1


def test_text_is_parsed_as_properties() -> None:
    text = "\n".join(f"{key}={value}" for key, value in COMBINED.items()) + "\nottla.admin.listener=127.0.0.1:8080\n"

    assert NodeConfig.from_text(text).ottla_admin_listener == Endpoint("127.0.0.1", 8080)
