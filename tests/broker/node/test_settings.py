"""Settings of the parts: memory of requests, privileged listeners, descriptors, tokens."""

import pytest

from ottla.config.node_config import NodeConfig
from ottla.node.settings import connection_limits, log_manager_config, peer_logins, raft_config, replication_config
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import PROPERTIES

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("changes", "size_bytes"),
    [
        pytest.param({}, 256 * MIB, id="default"),
        pytest.param({"queued.max.request.bytes": "0"}, 256 * MIB, id="zero-is-the-default-too"),
        pytest.param({"queued.max.request.bytes": str(100 * MIB)}, 100 * MIB, id="as-said"),
        pytest.param({"socket.request.max.bytes": str(128 * MIB)}, 256 * MIB, id="two-of-the-largest-fit"),
        pytest.param({"socket.request.max.bytes": str(129 * MIB)}, 258 * MIB, id="two-of-the-largest-are-more"),
    ],
)
def test_request_memory_is_configured_or_fits_every_request(changes: dict[str, str], size_bytes: int) -> None:
    config = NodeConfig.from_properties({**PROPERTIES, **changes})

    assert connection_limits(config).request_memory_bytes_max == size_bytes


@pytest.mark.parametrize(
    ("limit", "said", "connections", "open_files"),
    [
        pytest.param(128, None, 48, 64, id="tiny"),
        pytest.param(1_024, None, 384, 512, id="usual-soft-limit"),
        pytest.param(65_536, None, 64_512, 512, id="usual-hard-limit"),
        pytest.param(65_536, "1000", 1_000, 512, id="as-said"),
        pytest.param(1_024, "1000", 384, 512, id="more-than-the-descriptors-allow"),
    ],
)
def test_connections_leave_descriptors_for_files(
    limit: int, said: str | None, connections: int, open_files: int
) -> None:
    config = NodeConfig.from_properties(PROPERTIES | ({} if said is None else {"max.connections": said}))

    assert connection_limits(config, limit).connections_max == connections
    assert log_manager_config(config, limit).open_files_max == open_files


@pytest.mark.parametrize(
    ("limit_bytes", "said", "size_bytes"),
    [
        pytest.param(128 * MIB, None, 32 * MIB, id="a-quarter"),
        pytest.param(4096 * MIB, None, 256 * MIB, id="the-default-is-less"),
        pytest.param(128 * MIB, 100 * MIB, 100 * MIB, id="as-said"),
    ],
)
def test_request_memory_is_at_most_a_quarter_of_the_memory_limit(
    limit_bytes: int, said: int | None, size_bytes: int
) -> None:
    config = NodeConfig.from_properties(PROPERTIES | ({} if said is None else {"queued.max.request.bytes": str(said)}))

    assert connection_limits(config, memory_limit_bytes=limit_bytes).request_memory_bytes_max == size_bytes


def test_inter_broker_listener_is_privileged_only_if_clients_have_another() -> None:
    inside = {
        "listeners": "PLAINTEXT://localhost:9092,INSIDE://localhost:9094,CONTROLLER://localhost:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092,INSIDE://localhost:9094",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    alone = NodeConfig.from_properties(PROPERTIES)
    beside = NodeConfig.from_properties({**PROPERTIES, **inside})

    assert connection_limits(alone).privileged_listeners == {"CONTROLLER"}
    assert connection_limits(beside).privileged_listeners == {"CONTROLLER", "INSIDE"}


@pytest.mark.parametrize(
    ("changes", "linger_ms"),
    [
        pytest.param({}, 0, id="not-configured"),
        pytest.param({"controller.quorum.append.linger.ms": "25"}, 25, id="kafka-s-default-configured"),
        pytest.param({"controller.quorum.append.linger.ms": "0"}, 0, id="zero-configured"),
    ],
)
def test_append_linger_of_the_quorum_is_zero_unless_configured(changes: dict[str, str], linger_ms: int) -> None:
    sizes = {"controller.quorum.fetch.max.bytes": "7", "controller.quorum.fetch.snapshot.max.bytes": "8"}
    config = raft_config(NodeConfig.from_properties({**PROPERTIES, **sizes, **changes}))

    assert config.append_linger_ms == linger_ms
    assert (config.fetch_size_bytes_max, config.fetch_snapshot_size_bytes_max) == (7, 8)
    assert NodeConfig.from_properties({**PROPERTIES, **sizes, **changes}).warnings == ()


def test_token_of_a_node_is_read_from_its_file_for_every_authentication() -> None:
    config = NodeConfig.from_properties(
        {
            **PROPERTIES,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
            "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://issuer/keys,file:///run/token",
        }
    )
    disk = SimulatedDisk()
    login, randrange = peer_logins(config, disk)["CONTROLLER"], SeededRandom(1).randrange

    with pytest.raises(AuthenticationFailedError, match="token cannot be read: /run/token"):
        login.new_exchange(randrange)
    disk.make_directory("/run")
    for token in (b"first\n", b"next.one\n"):
        disk.open("/run/token", create=True).pwritev([token], 0)
        assert login.new_exchange(randrange).first() == b"n,,\x01auth=Bearer " + token.strip() + b"\x01\x01"
    disk.open("/run/token").pwritev([b"\xff"], 0)
    with pytest.raises(AuthenticationFailedError, match="cannot be read"):
        login.new_exchange(randrange)


@pytest.mark.parametrize(
    ("changes", "age_ms"),
    [
        pytest.param({}, 1_000, id="default"),
        pytest.param({"ottla.broker.response.timeout.ms": "3000"}, 3_000, id="as-hanging-brokers-are-fenced"),
        pytest.param({"ottla.broker.response.timeout.ms": "0"}, 9_000, id="session-without-that-limit"),
        pytest.param(
            {
                "broker.session.timeout.ms": "900",
                "broker.heartbeat.interval.ms": "300",
                "replica.fetch.wait.max.ms": "100",
            },
            900,
            id="session-that-is-shorter",
        ),
        pytest.param({"replica.fetch.wait.max.ms": "700"}, 1_400, id="followers-that-are-seldom-heard"),
    ],
)
def test_followers_confirm_a_leader_before_another_broker_is_elected(changes: dict[str, str], age_ms: int) -> None:
    config = NodeConfig.from_properties({**PROPERTIES, **changes})

    assert replication_config(config).confirmation_age_max_ms == age_ms
