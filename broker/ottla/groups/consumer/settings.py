"""`ConsumerGroupSettings`: what a group's own configuration changes of the node's settings.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from ottla.config.group_keys import (
    CONSUMER_ASSIGNMENT_INTERVAL,
    CONSUMER_HEARTBEAT_INTERVAL,
    CONSUMER_SESSION_TIMEOUT,
)
from ottla.groups.modern.settings import ModernGroupSettings


class ConsumerGroupSettings(ModernGroupSettings):
    """Settings of each consumer group."""

    def session_timeout_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.consumer_session_timeout_bounds_ms
        return self._own(group_id, CONSUMER_SESSION_TIMEOUT, config.consumer_session_timeout_ms, bounds_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.consumer_heartbeat_interval_bounds_ms
        return self._own(group_id, CONSUMER_HEARTBEAT_INTERVAL, config.consumer_heartbeat_interval_ms, bounds_ms)

    @property
    def settling_interval_ms(self) -> int:
        """The least time between a member's heartbeats after a change of the group's epoch; 0 for the usual one."""
        return self.config.consumer_settling_heartbeat_interval_ms

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time from one target assignment of the group to the next."""
        config = self.config
        bounds_ms = config.consumer_assignment_interval_bounds_ms
        return self._own(group_id, CONSUMER_ASSIGNMENT_INTERVAL, config.consumer_assignment_interval_ms, bounds_ms)
