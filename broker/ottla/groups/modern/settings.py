"""`ModernGroupSettings`: the values that a group has of its own, within the bounds of the node.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from collections.abc import Callable, Mapping

from ottla.config.group_keys import GROUP_KEYS
from ottla.config.key import InvalidConfigError, parse_value
from ottla.groups.config import GroupConfig


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


class ModernGroupSettings:
    """Settings of each group; ``overrides`` returns the raw values that a group has of its own.

    Attributes:
        config: of the node; may be replaced at any time.
    """

    def __init__(self, config: GroupConfig, overrides: Callable[[str], Mapping[str, str]]) -> None:
        self.config = config
        self._overrides = overrides

    def _own(self, group_id: str, key: str, default: int, bounds_ms: tuple[int, int]) -> int:
        return own_value(self._overrides(group_id), key, default, bounds_ms)
