"""Which of ``spec.config`` a running broker takes, and which it reads when it starts."""

from collections.abc import Mapping

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.key import Dynamic


def is_dynamic(key: str) -> bool:
    """Tell whether all brokers take another value while they run; a secret is not shown again, and is no such one."""
    known = BROKER_KEYS.get(key)
    return known is not None and known.dynamic is Dynamic.CLUSTER_WIDE and not known.is_sensitive


def dynamic_configs(config: Mapping[str, str]) -> dict[str, str]:
    """Return what is altered through the brokers, as the defaults of all of them."""
    return {key: value for key, value in config.items() if is_dynamic(key)}


def static_configs(config: Mapping[str, str]) -> dict[str, str]:
    """Return what stands in every server.properties, and takes a restart."""
    return {key: value for key, value in config.items() if not is_dynamic(key)}
