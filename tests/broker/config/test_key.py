"""Parsing of values, with Kafka's own error messages (recorded from Kafka 4.3.1)."""

import pytest

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.group_keys import GROUP_KEYS
from ottla.config.key import ConfigKey, ConfigValue, InvalidConfigError, format_value, parse_value
from ottla.config.topic_keys import TOPIC_KEYS

THROTTLED = (
    "Invalid value {} for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas "
    "must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        pytest.param("retention.ms", "-1", -1, id="lowest"),
        pytest.param("retention.ms", " 5 ", 5, id="blanks-around-a-number"),
        pytest.param("segment.bytes", "1048576", 1048576, id="exactly-at-least"),
        pytest.param("min.insync.replicas", "2147483647", 2**31 - 1, id="largest-int"),
        pytest.param("preallocate", "TRUE", True, id="boolean-in-any-case"),
        pytest.param("cleanup.policy", " compact , delete ", ("compact", "delete"), id="list-with-blanks"),
        pytest.param("cleanup.policy", "delete,delete", ("delete",), id="repeated-entry-counts-once"),
        pytest.param("cleanup.policy", "", (), id="empty-list"),
        pytest.param("min.cleanable.dirty.ratio", "1", 1.0, id="exactly-at-most"),
        pytest.param("compression.gzip.level", "-1", -1, id="outside-the-range-but-named"),
        pytest.param("leader.replication.throttled.replicas", "1:2,3:4", ("1:2", "3:4"), id="replicas"),
        pytest.param("leader.replication.throttled.replicas", "*", ("*",), id="all-replicas"),
    ],
)
def test_topic_value_is_parsed(name: str, text: str, value: ConfigValue) -> None:
    assert parse_value(TOPIC_KEYS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param(
            "retention.ms",
            "-2",
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            id="below-the-lowest",
        ),
        pytest.param(
            "retention.ms",
            "1.5",
            "Invalid value 1.5 for configuration retention.ms: Not a number of type LONG",
            id="no-whole-number",
        ),
        pytest.param(
            "min.insync.replicas",
            "2147483648",
            "Invalid value 2147483648 for configuration min.insync.replicas: Not a number of type INT",
            id="one-more-than-an-int-holds",
        ),
        pytest.param(
            "segment.bytes",
            "1048575",
            "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
            id="one-below-at-least",
        ),
        pytest.param(
            "min.cleanable.dirty.ratio",
            "1.1",
            "Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            id="above-at-most",
        ),
        pytest.param(
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            id="between-the-range-and-the-named-one",
        ),
        pytest.param(
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
            id="no-boolean",
        ),
        pytest.param(
            "cleanup.policy",
            "delete,foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            id="one-bad-word-in-a-list",
        ),
        pytest.param(
            "cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty.", id="empty-entry"
        ),
        pytest.param(
            "compression.type",
            "none",
            "Invalid value none for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            id="no-such-word",
        ),
        pytest.param("leader.replication.throttled.replicas", "1:", THROTTLED.format("[1:]"), id="half-a-replica"),
        pytest.param(
            "leader.replication.throttled.replicas", "1:2,*", THROTTLED.format("[1:2, *]"), id="star-among-others"
        ),
    ],
)
def test_bad_topic_value_is_rejected_with_kafkas_message(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_value(TOPIC_KEYS[name], text)

    assert caught.value.message == message


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_offset_reset_accepts_names_and_durations(text: str) -> None:
    assert parse_value(GROUP_KEYS["share.auto.offset.reset"], text) == text


@pytest.mark.parametrize("text", ["none", "by_duration:", "by_duration:PT", "by_duration:-PT1H", "by_duration:xx"])
def test_offset_reset_rejects_other_values(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"by_duration:<PnDTnHnMn\.nS>"):
        parse_value(GROUP_KEYS["share.auto.offset.reset"], text)


def test_values_are_case_insensitive_where_kafkas_are() -> None:
    assert parse_value(BROKER_KEYS["group.consumer.migration.policy"], "DisAbled") == "DisAbled"


def test_sensitive_value_is_not_shown_in_an_error() -> None:
    key = BROKER_KEYS["ssl.key.password"]._replace(bounds="a|b")

    with pytest.raises(InvalidConfigError) as caught:
        parse_value(key, "secret")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(True, "true", id="boolean"),
        pytest.param(("a", "b"), "a,b", id="list"),
        pytest.param((), "", id="empty-list"),
        pytest.param(5, "5", id="int"),
        pytest.param(0.5, "0.5", id="double"),
        pytest.param(9999999.0, "9999999.0", id="largest-plain-double"),
        pytest.param(1e7, "1.0E7", id="smallest-scientific-double"),
        pytest.param(0.001, "0.001", id="smallest-plain-double"),
        pytest.param(-0.00099, "-9.9E-4", id="largest-small-scientific-double"),
        pytest.param(1.7976931348623157e308, "1.7976931348623157E308", id="largest-double"),
        pytest.param(float("inf"), "Infinity", id="infinity"),
        pytest.param(float("nan"), "NaN", id="not-a-number"),
        pytest.param(None, None, id="none"),
    ],
)
def test_value_is_shown_as_kafka_shows_it(value: ConfigValue, text: str | None) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    "key", [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()], ids=lambda k: k.name
)
def test_every_default_is_allowed_by_its_own_bounds(key: ConfigKey) -> None:
    value = parse_value(key, key.default)

    assert (value is None) == (key.default is None)
