"""Changes by AlterConfigs and IncrementalAlterConfigs: which are allowed, and the values that result.

Source: ConfigurationControlManager, ControllerConfigurationValidator, DynamicBrokerConfig (Kafka 4.3), whose error
codes and messages these are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.client_matches import compile_matches
from ottla.config.group_keys import (
    CLIENT_METRICS_KEYS,
    CONSUMER_ASSIGNMENT_INTERVAL,
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    GROUP_KEYS,
    GROUP_SYNONYMS,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_STANDBY_REPLICAS,
)
from ottla.config.key import ConfigKey, ConfigType, Dynamic, InvalidConfigError, SupportLevel, parse_value
from ottla.config.layers import BrokerLayers, find_broker_key, topic_values
from ottla.config.resource_type import ConfigResourceType
from ottla.config.topic_keys import SYNONYMS, TOPIC_KEYS
from ottla.errors import InvalidRequestError
from ottla.quoting import cut_name


class AlterOperation(IntEnum):
    """``config_operation`` of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change of one key; ``value`` is None for DELETE."""

    name: str
    operation: AlterOperation
    value: str | None


_KEYS: dict[ConfigResourceType, dict[str, ConfigKey]] = {
    ConfigResourceType.TOPIC: TOPIC_KEYS,
    ConfigResourceType.BROKER: BROKER_KEYS,
    ConfigResourceType.GROUP: GROUP_KEYS,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
_BOUNDED_OF_GROUPS = (
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
    CONSUMER_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    SHARE_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_ASSIGNMENT_INTERVAL,
)


def apply_alterations(
    resource_type: ConfigResourceType,
    current: Mapping[str, str],
    alterations: Iterable[Alteration],
    layers: BrokerLayers | None = None,
) -> dict[str, str]:
    """Return ``current`` (a resource's own values) after ``alterations``; only types of lists are checked.

    ``layers`` gives the inherited value that APPEND and SUBTRACT start from if a topic has none of its own.

    Raises:
        InvalidConfigError: APPEND or SUBTRACT on a key whose type is not LIST.
    """
    values = dict(current)
    for name, operation, value in alterations:
        if operation is AlterOperation.SET and value is not None:
            values[name] = value
        elif operation is AlterOperation.DELETE:
            values.pop(name, None)
        else:
            values[name] = _alter_list(resource_type, name, operation, value or "", values.get(name), layers)
    return values


def _alter_list(
    resource_type: ConfigResourceType,
    name: str,
    operation: AlterOperation,
    value: str,
    current: str | None,
    layers: BrokerLayers | None,
) -> str:
    key = _KEYS.get(resource_type, {}).get(name)
    if key is None or key.type is not ConfigType.LIST:
        preposition = "to" if operation is AlterOperation.APPEND else "from"
        raise InvalidConfigError(
            f"Can't {operation.name} {preposition} key {cut_name(name)} because its type is not LIST."
        )
    if current is None:
        current = _inherited_list(resource_type, key, layers)
    entries = [entry for entry in current.split(",") if entry]
    changed = [entry for entry in value.split(",") if entry]
    if operation is AlterOperation.APPEND:
        known = set(entries)
        return ",".join([*entries, *dict.fromkeys(entry for entry in changed if entry not in known)])
    # As Kafka: each named entry removes one occurrence, the first.
    taken = Counter(changed)
    kept = []
    for entry in entries:
        if taken[entry]:
            taken[entry] -= 1
        else:
            kept.append(entry)
    return ",".join(kept)


def _inherited_list(resource_type: ConfigResourceType, key: ConfigKey, layers: BrokerLayers | None) -> str:
    names = (
        [name for name, _ in SYNONYMS.get(key.name, ())] if resource_type is ConfigResourceType.TOPIC else [key.name]
    )
    for name in names:
        inherited = layers.text(name) if layers is not None else None
        if inherited is not None:
            return inherited
    return key.default or ""


def validate_topic_config(layers: BrokerLayers, overrides: Mapping[str, str | None]) -> None:
    """Check the whole of a topic's own values.

    Raises:
        InvalidConfigError: an unknown key, a null, a bad value, or two values that contradict each other.
    """
    nulls = sorted(name for name, value in overrides.items() if value is None)
    if nulls:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
    texts = {name: value for name, value in overrides.items() if value is not None}
    for name in texts:
        if name not in TOPIC_KEYS:
            raise InvalidConfigError(f"Unknown topic config name: {cut_name(name)}")
    for name, text in texts.items():
        parse_value(TOPIC_KEYS[name], text)
    values = topic_values(layers, texts)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if values["remote.storage.enable"]:
        raise InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def validate_broker_config(values: Mapping[str, str], *, per_broker: bool) -> None:
    """Check dynamic values of one broker (``per_broker``) or of the cluster-wide default.

    Raises:
        KafkaError: INVALID_REQUEST with Kafka's message: a key that only a restart can change, a bad value, a key that
            belongs to single brokers, or one whose feature is not in this release and must not be ignored.
    """
    fixed = sorted(name for name in values if _is_read_only(name))
    if fixed:
        raise InvalidRequestError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for_all = sorted(name for name in values if name in ONLY_FOR_A_LISTENER)
    if for_all:
        raise InvalidRequestError(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(for_all)}]"
        )
    if not per_broker:
        single = sorted(name for name in values if _is_per_broker(name))
        if single:
            raise InvalidRequestError(
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"[{', '.join(single)}]"
            )
    for name, text in values.items():
        key = find_broker_key(name)
        if key is None:
            continue
        try:
            parse_value(key, text)
        except InvalidConfigError as error:
            raise InvalidRequestError(error.message or "") from error
        if key.support is SupportLevel.REJECTED and text != (key.default or ""):
            raise InvalidRequestError(f"{name}={cut_name(text)} is rejected: {key.reason}")


ONLY_FOR_A_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys that a running broker changes for one listener, ``listener.name.LISTENER.KEY``, and not for all at once."""


def _is_read_only(name: str) -> bool:
    key = find_broker_key(name)
    return key is not None and key.dynamic is Dynamic.READ_ONLY


def _is_per_broker(name: str) -> bool:
    key = find_broker_key(name)
    return key is not None and key.dynamic is Dynamic.PER_BROKER


CLEANER_THREADS = "log.cleaner.threads"
THREAD_COUNTS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
    CLEANER_THREADS,
)
"""Thread counts that a running broker changes in steps: at most to double, at least to half (rounded down)."""


def check_thread_counts(before: BrokerLayers, after: BrokerLayers) -> None:
    """Check that one change of a broker's values does not change thread counts too far; ``before`` is in effect.

    Malformed values are left to `validate_broker_config`.

    Raises:
        KafkaError: INVALID_REQUEST, with the messages of Kafka's DynamicThreadPool and LogCleaner.
    """
    for name in THREAD_COUNTS:
        if before.text(name) == after.text(name):
            continue
        try:
            now, wanted = (parse_value(BROKER_KEYS[name], layers.text(name)) for layers in (before, after))
        except InvalidConfigError:
            continue
        assert isinstance(now, int)
        assert isinstance(wanted, int)
        if wanted < 1 or not now // 2 <= wanted <= 2 * now:
            raise InvalidRequestError(_step_too_far(name, now, wanted))


def _step_too_far(name: str, now: int, wanted: int) -> str:
    if name == CLEANER_THREADS:
        if wanted < 1:
            return "Log cleaner threads should be at least 1"
        if wanted < now:
            return f"Log cleaner threads cannot be reduced to less than half the current value {now}"
        return f"Log cleaner threads cannot be increased to more than double the current value {now}"
    limit = "be at least half" if wanted < now else "not be greater than double"
    return (
        f"Dynamic thread count update validation failed for {name}={wanted}, "
        f"value should {limit} the current value {now}"
    )


def validate_group_config(values: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check a group's own values, against the bounds that ``layers`` have for groups.

    Raises:
        InvalidConfigError: an unknown key, a bad value, or one out of bounds.
    """
    for name, text in values.items():
        if name not in GROUP_KEYS:
            raise InvalidConfigError(f"Unknown group config name: {cut_name(name)}")
        parse_value(GROUP_KEYS[name], text)
    for name in _BOUNDED_OF_GROUPS:
        # The broker's own value, which counts where the group has none, was checked when the broker started.
        if name in values:
            _check_group_bounds(name, int(values[name]), layers)
    most = "group.streams.max.standby.replicas"
    if int(values.get(STREAMS_STANDBY_REPLICAS, 0)) > int(layers.text(most) or 0):
        raise InvalidConfigError(f"{STREAMS_STANDBY_REPLICAS} must be less than or equal to {most}")
    for timeout, interval in (
        (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL),
        (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
        (STREAMS_SESSION_TIMEOUT, STREAMS_HEARTBEAT_INTERVAL),
    ):
        timeout_ms, interval_ms = (
            int(values.get(name) or layers.text(GROUP_SYNONYMS[name]) or 0) for name in (timeout, interval)
        )
        if timeout_ms <= interval_ms:
            raise InvalidConfigError(f"{timeout} must be greater than {interval}")


def _check_group_bounds(name: str, number: int, layers: BrokerLayers) -> None:
    protocol, _, setting = name.partition(".")
    least, most = f"group.{protocol}.min.{setting}", f"group.{protocol}.max.{setting}"
    if number < int(layers.text(least) or 0):
        raise InvalidConfigError(f"{name} must be greater than or equal to {least}")
    if number > int(layers.text(most) or 0):
        raise InvalidConfigError(f"{name} must be less than or equal to {most}")


def validate_client_metrics_config(values: Mapping[str, str]) -> None:
    """Check a client-metrics subscription's values.

    Raises:
        KafkaError: INVALID_REQUEST for an unknown key or an interval out of bounds, INVALID_CONFIG for a bad pattern.
    """
    for name, text in values.items():
        if name not in CLIENT_METRICS_KEYS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {cut_name(name)}")
        value = parse_value(CLIENT_METRICS_KEYS[name], text)
        if name == "interval.ms" and isinstance(value, int) and not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
            raise InvalidRequestError(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        if name == "match" and isinstance(value, tuple):
            compile_matches(value)
