"""Subscriptions to client metrics: what the metadata holds, and the combined subscription of one client.

Source: ClientMetricsManager.createClientInstance, ClientMetricsConfigs, ClientMetricsInstanceMetadata of Kafka 4.3.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.config.client_matches import compile_matches
from ottla.config.group_keys import CLIENT_METRICS_KEYS
from ottla.config.key import parse_value
from ottla.java_hashes import buckets_of_grown, string_hash, uuid_hash
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps, batches
from ottla.types import Uuid
from ottla.wire.records.crc32c import crc32c

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
_METRICS_PER_STEP: Final = 64


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription.

    Attributes:
        metrics: prefixes of names, as configured, each once.
        interval_ms: between two pushes, 100 to 3,600,000.
        matches: by client attribute, the test that its value has to pass; a client without the attribute fails.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    matches: Mapping[str, Callable[[str], bool]]

    def is_for(self, attributes: Mapping[str, str | None]) -> bool:
        for name, matches in self.matches.items():
            value = attributes.get(name)
            if value is None or not matches(value):
                return False
        return True


def read_subscription(values: Mapping[str, str]) -> Subscription:
    """Return the subscription with these configured values.

    Raises:
        InvalidConfigError: a value is malformed, or a pattern is none of RE2's; records of other implementations only.
    """
    metrics, interval_ms, patterns = (
        parse_value(CLIENT_METRICS_KEYS[name], values.get(name, CLIENT_METRICS_KEYS[name].default))
        for name in ("metrics", "interval.ms", "match")
    )
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    assert isinstance(patterns, tuple)
    return Subscription(metrics, interval_ms, compile_matches(patterns))


class Combined(NamedTuple):
    """All subscriptions that are for one client, as one."""

    metrics: tuple[str, ...]
    """In the order of Kafka's; only ``*`` if any subscription has that."""
    interval_ms: int

    def id_for(self, instance_id: Uuid) -> int:
        """Return the subscription id: CRC-32C of metrics and interval, XOR the hash of the instance's id; an int32."""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        value = crc32c(text.encode()) ^ uuid_hash(instance_id)
        return value - (1 << 32) if value >> 31 else value


def _in_hash_order(texts: Collection[str]) -> Steps[list[str]]:
    """Return distinct strings as a `HashSet` lists them: clients compare the ids across brokers."""
    return (yield from in_hash_order(list(texts), string_hash, buckets_of_grown(len(texts))))


def combine(subscriptions: Mapping[str, Subscription], attributes: Mapping[str, str | None]) -> Steps[Combined]:
    """Return the combined subscription of the client with ``attributes``; ``subscriptions`` must not change."""
    interval_ms = DEFAULT_INTERVAL_MS
    metrics: dict[str, None] = {}
    for name in (yield from _in_hash_order(subscriptions)):
        yield None
        subscription = subscriptions[name]
        if not subscription.is_for(attributes):
            continue
        interval_ms = min(interval_ms, subscription.interval_ms)
        for batch in batches((yield from _in_hash_order(subscription.metrics)), _METRICS_PER_STEP):
            metrics.update(dict.fromkeys(batch))
            yield None
    if ALL_METRICS in metrics:
        return Combined((ALL_METRICS,), interval_ms)
    return Combined(tuple((yield from _in_hash_order(metrics))), interval_ms)
