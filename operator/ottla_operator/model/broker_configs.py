"""Split ``spec.config`` into configs that running brokers accept and configs that are read at the start."""

from collections.abc import Mapping

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.key import Dynamic


def is_dynamic(key: str) -> bool:
    """Tell whether the config is dynamic and cluster-wide; a sensitive value cannot be read back, so it never is."""
    known = BROKER_KEYS.get(key)
    return known is not None and known.dynamic is Dynamic.CLUSTER_WIDE and not known.is_sensitive


def dynamic_configs(config: Mapping[str, str]) -> dict[str, str]:
    """Return the configs that are altered through the brokers, as cluster-wide defaults."""
    return {key: value for key, value in config.items() if is_dynamic(key)}


def static_configs(config: Mapping[str, str]) -> dict[str, str]:
    """Return the configs in every server.properties; changing one takes a restart."""
    return {key: value for key, value in config.items() if not is_dynamic(key)}
