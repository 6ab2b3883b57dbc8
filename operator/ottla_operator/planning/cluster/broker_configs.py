"""Cluster-wide dynamic configs: differences are altered through the brokers, without a restart. Pure."""

from collections.abc import Mapping

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.key import ConfigValue, InvalidConfigError, parse_value
from ottla_operator.model.broker_configs import dynamic_configs
from ottla_operator.planning.steps.cluster import AlterBrokerConfigs
from ottla_operator.ports.cluster_view import ClusterView

_KEPT = {"min.insync.replicas": "1"}
"""Cluster-wide defaults that brokers do not remove, with Kafka's values (KIP-966)."""


def config_change(config: Mapping[str, str], view: ClusterView) -> AlterBrokerConfigs | None:
    """Return the change from the present cluster-wide defaults to ``config``; None if they are equal.

    A default that was set by other tools and that the manifest does not name is removed, as with a Topic.
    """
    present = view.configs
    wanted = {key: value for key, value in _KEPT.items() if key in present} | dynamic_configs(config)
    upserts = {
        key: value for key, value in wanted.items() if key not in present or not _is_same(key, present[key], value)
    }
    deletions = tuple(key for key in present if key not in wanted)
    return AlterBrokerConfigs(upserts, deletions) if upserts or deletions else None


def _is_same(key: str, one: str, other: str) -> bool:
    return one == other or _value(key, one) == _value(key, other)


def _value(key: str, text: str) -> ConfigValue:
    """Return the value as brokers parse it; an invalid one as the string itself."""
    try:
        return parse_value(BROKER_KEYS[key], text)
    except InvalidConfigError:
        return text
