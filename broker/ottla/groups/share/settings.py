"""`ShareGroupSettings`: what a group's own configuration changes of the node's settings.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from ottla.config.group_keys import SHARE_ASSIGNMENT_INTERVAL, SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT
from ottla.groups.modern.settings import ModernGroupSettings


class ShareGroupSettings(ModernGroupSettings):
    """Settings of each share group."""

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
