"""The values that a group has of its own, within the bounds of the node.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from collections.abc import Mapping

from ottla.config.group_keys import GROUP_KEYS
from ottla.config.key import InvalidConfigError, parse_value


def own_value(overrides: Mapping[str, str], key: str, default: int, bounds: tuple[int, int]) -> int:
    """Return a group's own value of ``key``, within the bounds that the node has now; ``default`` if it has none."""
    text = overrides.get(key)
    if text is None:
        return default
    try:
        value = parse_value(GROUP_KEYS[key], text)
    except InvalidConfigError:
        # The controller has validated it; another release may have written something else.
        return default
    assert isinstance(value, int)
    return min(max(value, bounds[0]), bounds[1])
