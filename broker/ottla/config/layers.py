"""The layers of a value: default <- static broker <- dynamic default <- dynamic broker <- topic; the last one wins.

`BrokerLayers` is one broker's three layers. `topic_values` gives what a topic's log runs with; the ``describe_*``
functions return what DescribeConfigs shows. Source: ConfigHelper, DynamicBrokerConfig, LogConfig (Kafka 4.3).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import dropwhile
from typing import Any, NamedTuple

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.group_keys import CLIENT_METRICS_KEYS, GROUP_KEYS, GROUP_SYNONYMS
from ottla.config.key import ConfigKey, ConfigType, ConfigValue, Dynamic, InvalidConfigError, format_value, parse_value
from ottla.config.topic_keys import SYNONYMS, TOPIC_KEYS

LISTENER_PREFIX = "listener.name."


class ConfigSource(IntEnum):
    """``config_source`` of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """One layer's value for a key, or for the broker key that it inherits from. ``value`` is None where sensitive."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    """One entry of DescribeConfigs; ``synonyms`` are in order of precedence."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    type: ConfigType | None
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """One broker's raw values, by key.

    ``static`` is `NodeConfig.originals`; the other two come from the metadata log: the config records of the broker
    resource ``""`` and of this broker's id.
    """

    static: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)

    def synonyms(self, names: Iterable[str]) -> tuple[ConfigSynonym, ...]:
        """Return every layer's values for ``names`` in order of precedence: by layer, then by the order of names."""
        return tuple(self._synonyms(tuple(names)))

    def _synonyms(self, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
        layers = (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for layer, source in layers:
            yield from (ConfigSynonym(name, layer[name], source) for name in names if name in layer)
        for name in names:
            default = BROKER_KEYS[name].default if name in BROKER_KEYS else None
            if default is not None:
                yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)

    def text(self, name: str) -> str | None:
        """Return the effective raw value of one broker key, None if no layer has one."""
        return next((synonym.value for synonym in self._synonyms((name,))), None)

    def dynamic(self) -> dict[str, str]:
        """Return the dynamic values, for `NodeConfig.with_dynamic`."""
        return {**self.dynamic_default, **self.dynamic_broker}


def topic_values(layers: BrokerLayers, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return every topic key's value for a topic with ``overrides``.

    A value that no longer parses (written by another release) falls back to the next layer.
    """
    values = {name: _inherited_value(layers, key) for name, key in TOPIC_KEYS.items()}
    for name, text in overrides.items():
        if name in TOPIC_KEYS:
            try:
                values[name] = parse_value(TOPIC_KEYS[name], text)
            except InvalidConfigError:
                continue
    return values


# Keys of a topic that are not settings of its log.
_NOT_FOR_THE_LOG = frozenset(
    {
        "follower.replication.throttled.replicas",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)


def log_settings(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    """Return the keyword arguments of `ottla.log.config.LogConfig` from `topic_values`.

    ``segment_jitter_ms`` is the bound, ``segment.jitter.ms``: the owner of the log draws each partition's own below it.
    """
    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in values.items() if name not in _NOT_FOR_THE_LOG
    }
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    settings["cleanup_policy"] = frozenset(policy)
    if values["internal.segment.bytes"] is not None:
        settings["segment_bytes"] = values["internal.segment.bytes"]
    return settings


def _inherited_value(layers: BrokerLayers, key: ConfigKey) -> ConfigValue:
    """Return the value of a topic without the key: the first broker synonym set in any layer, else the default."""
    for broker_name, factor in SYNONYMS.get(key.name, ()):
        for synonym in layers.synonyms((broker_name,)):
            try:
                value = parse_value(BROKER_KEYS[broker_name], synonym.value)
            except InvalidConfigError:
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                # An hours or minutes key may be -1, which means unlimited in any unit.
                return value * factor if value > 0 else value
            return value
    return parse_value(key, key.default)


def describe_topic(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """Return every key of a topic, sorted by name."""
    values = topic_values(layers, overrides)
    described = []
    for name in sorted(TOPIC_KEYS):
        key = TOPIC_KEYS[name]
        if key.is_unlisted and name not in overrides:
            continue
        synonyms = _inherited_synonyms(layers, name)
        if name in overrides:
            synonyms = (ConfigSynonym(name, overrides[name], ConfigSource.DYNAMIC_TOPIC_CONFIG), *synonyms)
        described.append(_describe(key, format_value(values[name]), False, synonyms))
    return described


def _inherited_synonyms(layers: BrokerLayers, name: str) -> tuple[ConfigSynonym, ...]:
    """Return the broker's synonyms of a topic's key, as the broker itself lists them."""
    broker_names = tuple(broker_name for broker_name, _ in SYNONYMS.get(name, ()))
    return _own_first(layers.synonyms(broker_names), broker_names[0]) if broker_names else ()


def describe_broker(layers: BrokerLayers) -> list[DescribedConfig]:
    """Return every key of one broker, sorted by name; unknown keys that are set are shown without their value."""
    set_names = {*layers.static, *layers.dynamic_default, *layers.dynamic_broker}
    listed = {name for name, key in BROKER_KEYS.items() if not key.is_unlisted}
    return [_describe_broker_key(layers, name) for name in sorted(listed | set_names)]


def _describe_broker_key(layers: BrokerLayers, name: str) -> DescribedConfig:
    key = find_broker_key(name)
    if key is None:
        return DescribedConfig(name, None, True, ConfigSource.STATIC_BROKER_CONFIG, True, None, (), "")
    synonyms = _own_first(layers.synonyms(_BROKER_FAMILIES.get(name, (name,))), name)
    read_only = key.dynamic is Dynamic.READ_ONLY
    return _describe(key._replace(name=name), _shown(key, synonyms), read_only, synonyms)


_BROKER_FAMILIES = {
    name: family
    for family in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    for name in family
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}
"""Broker keys of one setting in several units, by each of these keys, in order of precedence."""


def _own_first(synonyms: tuple[ConfigSynonym, ...], name: str) -> tuple[ConfigSynonym, ...]:
    """Omit synonyms of other names before ``name``: Kafka lists a key's synonyms from its own value on."""
    return tuple(dropwhile(lambda synonym: synonym.name != name, synonyms))


def describe_broker_defaults(dynamic_default: Mapping[str, str]) -> list[DescribedConfig]:
    """Return the cluster-wide dynamic values (the broker resource ``""``), sorted by name."""
    layers = BrokerLayers(dynamic_default=dynamic_default)
    return [
        described._replace(synonyms=described.synonyms[:1])
        for described in (_describe_broker_key(layers, name) for name in sorted(dynamic_default))
    ]


def describe_group(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """Return every key of a group, sorted by name."""
    described = []
    for name in sorted(GROUP_KEYS):
        key = GROUP_KEYS[name]
        if name in GROUP_SYNONYMS:
            synonyms = layers.synonyms((GROUP_SYNONYMS[name],))
        else:
            # Kafka lists the default of a key that the broker does not have under the group's name.
            synonyms = (ConfigSynonym(name, _shown(key, ()), ConfigSource.DEFAULT_CONFIG),)
        if name in overrides:
            synonyms = (ConfigSynonym(name, overrides[name], ConfigSource.GROUP_CONFIG), *synonyms)
        described.append(_describe(key, _shown(key, synonyms), False, synonyms))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """Return every key of a client-metrics subscription, sorted by name."""
    described = []
    for name in sorted(CLIENT_METRICS_KEYS):
        key = CLIENT_METRICS_KEYS[name]
        synonyms: tuple[ConfigSynonym, ...] = ()
        if name in overrides:
            synonyms = (ConfigSynonym(name, overrides[name], ConfigSource.CLIENT_METRICS_CONFIG),)
        described.append(_describe(key, _shown(key, synonyms), False, synonyms))
    return described


def find_broker_key(name: str) -> ConfigKey | None:
    """Return the row of a broker key, also with a listener prefix (``listener.name.external.KEY``)."""
    key = BROKER_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        # The key may follow the listener's name, or the listener's name and a SASL mechanism.
        parts = name.removeprefix(LISTENER_PREFIX).split(".")
        for skipped in (1, 2):
            key = BROKER_KEYS.get(".".join(parts[skipped:]))
            if key is not None:
                return key
    return key


def _shown(key: ConfigKey, synonyms: tuple[ConfigSynonym, ...]) -> str | None:
    for synonym in synonyms:
        try:
            return format_value(parse_value(key, synonym.value))
        except InvalidConfigError:
            continue
    return key.default


def _describe(
    key: ConfigKey, value: str | None, read_only: bool, synonyms: tuple[ConfigSynonym, ...]
) -> DescribedConfig:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if key.is_sensitive:
        value, synonyms = None, tuple(synonym._replace(value=None) for synonym in synonyms)
    return DescribedConfig(key.name, value, read_only, source, key.is_sensitive, key.type, synonyms, key.reason)
