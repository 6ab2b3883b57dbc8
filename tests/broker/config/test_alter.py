"""Changing configs: lists grow and shrink; other changes are rejected with Kafka's messages."""

import pytest

from ottla.config.alter import (
    Alteration,
    AlterOperation,
    apply_alterations,
    check_thread_counts,
    validate_broker_config,
    validate_client_metrics_config,
    validate_group_config,
    validate_topic_config,
)
from ottla.config.key import InvalidConfigError
from ottla.config.layers import BrokerLayers
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, KafkaError

LAYERS = BrokerLayers()
LONGEST_LIST = ",".join(f"{number:x}" for number in range(6_900))[:32_767]
"""Comparing each entry with each other would block the loop for seconds, by a client that may alter one topic."""


def alter(current: dict[str, str], name: str, operation: AlterOperation, value: str | None) -> dict[str, str]:
    return apply_alterations(ConfigResourceType.TOPIC, current, [Alteration(name, operation, value)], LAYERS)


@pytest.mark.parametrize(
    ("current", "operation", "value", "after"),
    [
        pytest.param({}, AlterOperation.SET, "compact", {"cleanup.policy": "compact"}, id="set"),
        pytest.param({"cleanup.policy": "compact"}, AlterOperation.DELETE, None, {}, id="delete"),
        pytest.param({}, AlterOperation.DELETE, None, {}, id="delete-an-unset-key"),
        pytest.param(
            {}, AlterOperation.APPEND, "compact", {"cleanup.policy": "delete,compact"}, id="append-to-the-inherited"
        ),
        pytest.param(
            {"cleanup.policy": "compact"},
            AlterOperation.APPEND,
            "compact",
            {"cleanup.policy": "compact"},
            id="append-again",
        ),
        pytest.param(
            {"cleanup.policy": "compact,delete"},
            AlterOperation.SUBTRACT,
            "delete",
            {"cleanup.policy": "compact"},
            id="subtract",
        ),
        pytest.param(
            {"cleanup.policy": "a"}, AlterOperation.APPEND, "b,a,b", {"cleanup.policy": "a,b"}, id="append-twice"
        ),
        pytest.param(
            {"cleanup.policy": "a,b,a,a"},
            AlterOperation.SUBTRACT,
            "a,c,a",
            {"cleanup.policy": "b,a"},
            id="subtract-as-often-as-it-is-named",
        ),
        pytest.param(
            {"cleanup.policy": LONGEST_LIST},
            AlterOperation.SUBTRACT,
            LONGEST_LIST,
            {"cleanup.policy": ""},
            id="subtract-as-much-as-a-string-holds",
        ),
        pytest.param(
            {"cleanup.policy": LONGEST_LIST},
            AlterOperation.APPEND,
            LONGEST_LIST,
            {"cleanup.policy": LONGEST_LIST},
            id="append-as-much-as-a-string-holds",
        ),
    ],
)
def test_alteration_is_applied(
    current: dict[str, str], operation: AlterOperation, value: str | None, after: dict[str, str]
) -> None:
    assert alter(current, "cleanup.policy", operation, value) == after


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (AlterOperation.APPEND, "Can't APPEND to key retention.ms because its type is not LIST."),
        (AlterOperation.SUBTRACT, "Can't SUBTRACT from key retention.ms because its type is not LIST."),
    ],
    ids=["append", "subtract"],
)
def test_only_lists_grow_and_shrink(operation: AlterOperation, message: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        alter({}, "retention.ms", operation, "1")

    assert caught.value.message == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param({"no.such.key": "1"}, "Unknown topic config name: no.such.key", id="unknown"),
        pytest.param({"retention.ms": None}, "Null value not supported for topic configs: retention.ms", id="null"),
        pytest.param(
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
            id="lags-contradict",
        ),
        pytest.param(
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            id="tiered",
        ),
    ],
)
def test_bad_topic_config_is_rejected(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        validate_topic_config(LAYERS, overrides)

    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_equal_compaction_lags_are_accepted() -> None:
    assert not validate_topic_config(LAYERS, {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"broker.id": "3"}, "Cannot update these configs dynamically: [broker.id]", id="read-only"),
        pytest.param(
            {"log.segment.bytes": "5"},
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
            id="bad-value",
        ),
        pytest.param(
            {"listeners": "PLAINTEXT://:1"},
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
            id="belongs-to-one-broker",
        ),
        pytest.param(
            {"ssl.keystore.location": "/new", "ssl.client.auth": "none"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
            id="belongs-to-one-listener",
        ),
    ],
)
def test_bad_broker_config_is_rejected(values: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_broker_config(values, per_broker=False)

    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_broker_config_that_would_be_ignored_is_rejected() -> None:
    with pytest.raises(KafkaError, match="rejected"):
        validate_broker_config({"principal.builder.class": "com.example.Mine"}, per_broker=True)


def test_unknown_broker_config_is_accepted_for_plugins() -> None:
    assert not validate_broker_config({"no.such.key": "1"}, per_broker=True)


def test_unknown_group_config_is_rejected() -> None:
    with pytest.raises(InvalidConfigError, match="Unknown group config name: nope"):
        validate_group_config({"nope": "1"}, BrokerLayers())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"consumer.session.timeout.ms": "44999"},
            "greater than or equal to group.consumer.min.session",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "less than or equal to group.consumer.max.session",
        ),
        ({"consumer.heartbeat.interval.ms": "4999"}, "must be greater than or equal to group.consumer.min.heartbeat"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "must be less than or equal to group.consumer.max.heartbeat"),
        ({"consumer.assignment.interval.ms": "15001"}, "must be less than or equal to group.consumer.max.assignment"),
        pytest.param(
            {"share.record.lock.duration.ms": "60001"},
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
            id="share.record.lock.duration.ms-60001",
        ),
        pytest.param(
            {"share.record.lock.duration.ms": "14999"},
            "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms",
            id="share.record.lock.duration.ms-14999",
        ),
        pytest.param(
            {"share.delivery.count.limit": "11"},
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
            id="share.delivery.count.limit-11",
        ),
        pytest.param(
            {"share.partition.max.record.locks": "5000"},
            "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks",
            id="share.partition.max.record.locks-5000",
        ),
        pytest.param(
            {"share.session.timeout.ms": "44999"},
            "share.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
            id="share.session.timeout.ms-44999",
        ),
        pytest.param(
            {"share.heartbeat.interval.ms": "15001"},
            "share.heartbeat.interval.ms must be less than or equal to group.share.max.heartbeat.interval.ms",
            id="share.heartbeat.interval.ms-15001",
        ),
        pytest.param(
            {"share.assignment.interval.ms": "15001"},
            "share.assignment.interval.ms must be less than or equal to group.share.max.assignment.interval.ms",
            id="share.assignment.interval.ms-15001",
        ),
        pytest.param(
            {"streams.session.timeout.ms": "60001"},
            "streams.session.timeout.ms must be less than or equal to group.streams.max.session.timeout.ms",
            id="streams.session.timeout.ms-60001",
        ),
        pytest.param(
            {"streams.heartbeat.interval.ms": "4999"},
            "streams.heartbeat.interval.ms must be greater than or equal to group.streams.min.heartbeat.interval.ms",
            id="streams.heartbeat.interval.ms-4999",
        ),
        pytest.param(
            {"streams.assignment.interval.ms": "15001"},
            "streams.assignment.interval.ms must be less than or equal to group.streams.max.assignment.interval.ms",
            id="streams.assignment.interval.ms-15001",
        ),
        pytest.param(
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
            id="streams.num.standby.replicas-3",
        ),
    ],
)
def test_group_config_out_of_the_brokers_bounds_is_rejected(values: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        validate_group_config(values, BrokerLayers())


def test_group_config_within_the_brokers_bounds_is_accepted() -> None:
    layers = BrokerLayers(static={"group.consumer.min.session.timeout.ms": "6000"})
    validate_group_config({"consumer.session.timeout.ms": "6000"}, layers)

    with pytest.raises(InvalidConfigError, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        validate_group_config({"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "6000"}, layers)


@pytest.mark.parametrize("protocol", ["share", "streams"])
def test_session_of_a_group_is_longer_than_its_heartbeat_interval(protocol: str) -> None:
    layers = BrokerLayers(static={f"group.{protocol}.min.session.timeout.ms": "6000"})
    values = {f"{protocol}.session.timeout.ms": "6000", f"{protocol}.heartbeat.interval.ms": "6000"}

    with pytest.raises(InvalidConfigError, match=rf"must be greater than {protocol}\.heartbeat\.interval\.ms"):
        validate_group_config(values, layers)


def test_streams_group_may_have_as_many_standby_replicas_as_the_broker_allows() -> None:
    values = {"streams.num.standby.replicas": "3", "streams.initial.rebalance.delay.ms": "0"}

    validate_group_config(values, BrokerLayers(static={"group.streams.max.standby.replicas": "3"}))

    with pytest.raises(InvalidConfigError, match=r"group\.streams\.max\.standby\.replicas"):
        validate_group_config(values, BrokerLayers(static={"group.streams.max.standby.replicas": "2"}))


def test_setting_that_a_group_lacks_is_the_brokers() -> None:
    layers = BrokerLayers(
        static={
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.max.session.timeout.ms": "8000",
            "group.consumer.session.timeout.ms": "7000",
        }
    )
    validate_group_config({"consumer.heartbeat.interval.ms": "6999"}, layers)

    with pytest.raises(InvalidConfigError, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        validate_group_config({"consumer.heartbeat.interval.ms": "7000"}, layers)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        pytest.param({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST, id="too-often"),
        pytest.param({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST, id="too-seldom"),
        pytest.param({"nope": "1"}, ErrorCode.INVALID_REQUEST, id="unknown"),
        pytest.param({"match": "client_id=["}, ErrorCode.INVALID_CONFIG, id="bad-expression"),
        pytest.param({"match": "foo=1"}, ErrorCode.INVALID_CONFIG, id="bad-parameter"),
    ],
)
def test_bad_client_metrics_config_is_rejected(values: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_client_metrics_config(values)

    assert caught.value.code is code


@pytest.mark.parametrize("interval_ms", ["100", "3600000"])
def test_client_metrics_interval_at_its_bounds_is_accepted(interval_ms: str) -> None:
    assert not validate_client_metrics_config({"interval.ms": interval_ms, "match": "client_id=a.*"})


@pytest.mark.parametrize(
    ("name", "now", "after"),
    [
        pytest.param("num.io.threads", "8", "16", id="double"),
        pytest.param("num.io.threads", "8", "4", id="half"),
        pytest.param("num.network.threads", "3", "1", id="half-rounded-down"),
        pytest.param("log.cleaner.threads", "1", "2", id="double-the-cleaner"),
        pytest.param("num.io.threads", "8", "many", id="no-number-is-rejected-elsewhere"),
        pytest.param("group.coordinator.threads", "1", "9", id="not-changed-at-run-time"),
    ],
)
def test_thread_count_may_double_or_halve(name: str, now: str, after: str) -> None:
    check_thread_counts(BrokerLayers({name: now}), BrokerLayers({name: now}, {}, {name: after}))


FURTHER = "Dynamic thread count update validation failed for"


@pytest.mark.parametrize(
    ("name", "now", "after", "message"),
    [
        (
            "num.io.threads",
            "8",
            "17",
            f"{FURTHER} num.io.threads=17, value should not be greater than double the current value 8",
        ),
        (
            "background.threads",
            "10",
            "4",
            f"{FURTHER} background.threads=4, value should be at least half the current value 10",
        ),
        (
            "log.cleaner.threads",
            "1",
            "3",
            "Log cleaner threads cannot be increased to more than double the current value 1",
        ),
        (
            "log.cleaner.threads",
            "8",
            "3",
            "Log cleaner threads cannot be reduced to less than half the current value 8",
        ),
        ("log.cleaner.threads", "1", "0", "Log cleaner threads should be at least 1"),
    ],
)
def test_larger_change_of_a_thread_count_is_rejected(name: str, now: str, after: str, message: str) -> None:
    with pytest.raises(KafkaError) as rejected:
        check_thread_counts(BrokerLayers({name: now}), BrokerLayers({name: now}, {name: after}))

    assert (rejected.value.code, rejected.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_thread_count_default_that_the_broker_overrides_is_not_checked() -> None:
    own = {"num.io.threads": "8"}

    check_thread_counts(BrokerLayers({}, {}, own), BrokerLayers({}, {"num.io.threads": "99"}, own))


def test_removing_an_override_of_a_distant_default_is_rejected() -> None:
    far = {"num.io.threads": "99"}

    with pytest.raises(KafkaError, match=r"num\.io\.threads=99, value should not be greater than double .* value 8"):
        check_thread_counts(BrokerLayers({}, far, {"num.io.threads": "8"}), BrokerLayers({}, far, {}))
