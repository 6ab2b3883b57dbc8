"""Precedence of layers, and how DescribeConfigs shows the layers below."""

import pytest

from ottla.config.key import ConfigType
from ottla.config.layers import (
    BrokerLayers,
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
    find_broker_key,
    log_settings,
    topic_values,
)
from ottla.log.config import LogConfig

DEFAULT = ConfigSource.DEFAULT_CONFIG


def one(described: list[DescribedConfig], name: str) -> DescribedConfig:
    return next(line for line in described if line.name == name)


def test_topic_without_any_layer_has_the_logs_own_defaults() -> None:
    assert LogConfig(**log_settings(topic_values(BrokerLayers(), {}))) == LogConfig()


@pytest.mark.parametrize(
    ("layers", "retention_ms"),
    [
        pytest.param(BrokerLayers({"log.retention.hours": "2"}), 7_200_000, id="hours"),
        pytest.param(BrokerLayers({"log.retention.hours": "2", "log.retention.minutes": "3"}), 180_000, id="minutes"),
        pytest.param(BrokerLayers({"log.retention.minutes": "3", "log.retention.ms": "4"}), 4, id="ms"),
        pytest.param(BrokerLayers({"log.retention.hours": "-1"}), -1, id="unlimited-in-hours"),
        pytest.param(BrokerLayers({"log.retention.ms": "4"}, {"log.retention.ms": "5"}), 5, id="dynamic-default"),
        pytest.param(BrokerLayers({}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"}), 6, id="dynamic-broker"),
        pytest.param(BrokerLayers({"log.retention.ms": "rubbish"}), 604_800_000, id="unreadable-is-skipped"),
    ],
)
def test_topic_inherits_from_the_brokers_layers(layers: BrokerLayers, retention_ms: int) -> None:
    assert topic_values(layers, {})["retention.ms"] == retention_ms


def test_topics_own_value_takes_precedence() -> None:
    layers = BrokerLayers({"log.retention.ms": "4"}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"})

    assert topic_values(layers, {"retention.ms": "7"})["retention.ms"] == 7


def test_flush_falls_back_to_the_scheduler() -> None:
    assert topic_values(BrokerLayers({"log.flush.scheduler.interval.ms": "50"}), {})["flush.ms"] == 50


def test_internal_segment_size_reaches_the_log() -> None:
    assert log_settings(topic_values(BrokerLayers(), {"internal.segment.bytes": "100"}))["segment_bytes"] == 100


def test_described_topic_shows_its_synonyms_in_order_of_precedence() -> None:
    layers = BrokerLayers({}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"})

    line = one(describe_topic(layers, {"retention.ms": "7"}), "retention.ms")

    assert (line.value, line.read_only, line.source) == ("7", False, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [tuple(synonym) for synonym in line.synonyms] == [
        ("retention.ms", "7", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "6", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("log.retention.ms", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_described_topic_hides_keys_for_tests_until_they_are_set() -> None:
    names = [line.name for line in describe_topic(BrokerLayers(), {})]

    assert "internal.segment.bytes" not in names
    assert names == sorted(names)
    assert len(names) == 33


def test_described_broker_shows_static_and_default() -> None:
    line = one(describe_broker(BrokerLayers({"num.partitions": "3"})), "num.partitions")

    assert (line.value, line.read_only, line.source, line.type) == (
        "3",
        True,
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigType.INT,
    )
    assert [synonym.value for synonym in line.synonyms] == ["3", "1"]


def test_described_broker_lists_ottlas_keys_only_when_set() -> None:
    assert "ottla.acks.fsync" not in [line.name for line in describe_broker(BrokerLayers())]
    assert "ottla.acks.fsync" in [line.name for line in describe_broker(BrokerLayers({"ottla.acks.fsync": "true"}))]


def test_secret_is_never_described() -> None:
    line = one(describe_broker(BrokerLayers({"ssl.key.password": "hunter2"})), "ssl.key.password")

    assert line.is_sensitive
    assert line.value is None
    assert [synonym.value for synonym in line.synonyms] == [None]


def test_unknown_key_is_described_without_its_value() -> None:
    line = one(describe_broker(BrokerLayers({"my.plugin.password": "hunter2"})), "my.plugin.password")

    assert (line.value, line.is_sensitive) == (None, True)


def test_cluster_wide_defaults_list_only_what_is_set() -> None:
    lines = describe_broker_defaults({"log.retention.ms": "5"})

    assert [(line.name, line.value, line.source) for line in lines] == [
        ("log.retention.ms", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    ]


def test_group_inherits_from_the_broker() -> None:
    layers = BrokerLayers({"group.consumer.session.timeout.ms": "50000"})

    line = one(describe_group(layers, {}), "consumer.session.timeout.ms")

    assert (line.value, line.source) == ("50000", ConfigSource.STATIC_BROKER_CONFIG)


def test_group_key_without_a_broker_key_lists_its_default() -> None:
    line = one(describe_group(BrokerLayers({}), {"share.auto.offset.reset": "earliest"}), "share.auto.offset.reset")

    assert [(each.name, each.value, each.source) for each in line.synonyms] == [
        ("share.auto.offset.reset", "earliest", ConfigSource.GROUP_CONFIG),
        ("share.auto.offset.reset", "latest", ConfigSource.DEFAULT_CONFIG),
    ]


def test_client_metrics_show_what_was_set() -> None:
    line = one(describe_client_metrics({"interval.ms": "100"}), "interval.ms")

    assert (line.value, line.source) == ("100", ConfigSource.CLIENT_METRICS_CONFIG)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("listener.name.external.ssl.keystore.location", "ssl.keystore.location", id="listener"),
        pytest.param("listener.name.external.plain.sasl.jaas.config", "sasl.jaas.config", id="listener-and-mechanism"),
    ],
)
def test_key_with_listener_prefix_is_found(name: str, key: str) -> None:
    found = find_broker_key(name)

    assert found is not None
    assert found.name == key


def test_unknown_key_with_listener_prefix_is_not_found() -> None:
    assert find_broker_key("listener.name.external.no.such.key") is None
