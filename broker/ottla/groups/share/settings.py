"""`ShareGroupSettings`: what a group's own configuration changes of the node's settings.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from collections.abc import Callable, Mapping

from ottla.config.group_keys import SHARE_ASSIGNMENT_INTERVAL, SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT
from ottla.groups.config import GroupConfig
from ottla.groups.modern.settings import own_value


class ShareGroupSettings:
    """Settings of each group; ``overrides`` returns the raw values that a group has of its own.

    Attributes:
        config: of the node; may be replaced at any time.
    """

    def __init__(self, config: GroupConfig, overrides: Callable[[str], Mapping[str, str]]) -> None:
        self.config = config
        self._overrides = overrides

    def session_timeout_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.share_session_timeout_bounds_ms
        return self._own(group_id, SHARE_SESSION_TIMEOUT, config.share_session_timeout_ms, bounds_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.share_heartbeat_interval_bounds_ms
        return self._own(group_id, SHARE_HEARTBEAT_INTERVAL, config.share_heartbeat_interval_ms, bounds_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time from one target assignment of the group to the next."""
        config = self.config
        bounds_ms = config.share_assignment_interval_bounds_ms
        return self._own(group_id, SHARE_ASSIGNMENT_INTERVAL, config.share_assignment_interval_ms, bounds_ms)

    def _own(self, group_id: str, key: str, default: int, bounds_ms: tuple[int, int]) -> int:
        return own_value(self._overrides(group_id), key, default, bounds_ms)
