"""`StreamsGroupSettings`: what a group's own configuration changes of the node's settings.

Source: GroupConfig, GroupCoordinatorConfig of Apache Kafka 4.3.
"""

from typing import Final

from ottla.config.group_keys import (
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_INITIAL_REBALANCE_DELAY,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_STANDBY_REPLICAS,
)
from ottla.groups.modern.settings import ModernGroupSettings

_INT32_MAX: Final = 2**31 - 1


class StreamsGroupSettings(ModernGroupSettings):
    """Settings of each streams group."""

    def session_timeout_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.streams_session_timeout_bounds_ms
        return self._own(group_id, STREAMS_SESSION_TIMEOUT, config.streams_session_timeout_ms, bounds_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        config = self.config
        bounds_ms = config.streams_heartbeat_interval_bounds_ms
        return self._own(group_id, STREAMS_HEARTBEAT_INTERVAL, config.streams_heartbeat_interval_ms, bounds_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the least time from one target assignment of the group to the next."""
        config = self.config
        bounds_ms = config.streams_assignment_interval_bounds_ms
        return self._own(group_id, STREAMS_ASSIGNMENT_INTERVAL, config.streams_assignment_interval_ms, bounds_ms)

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """Return how long the first assignment of a group waits for more members."""
        default_ms = self.config.streams_initial_rebalance_delay_ms
        return self._own(group_id, STREAMS_INITIAL_REBALANCE_DELAY, default_ms, (0, _INT32_MAX))

    def standby_replicas(self, group_id: str) -> int:
        """Return the number of standby tasks of each stateful task."""
        config = self.config
        bounds = (0, config.streams_standby_replicas_max)
        return self._own(group_id, STREAMS_STANDBY_REPLICAS, config.streams_standby_replicas, bounds)
