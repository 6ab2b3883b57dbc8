"""`ShareGroupSettings`: a share group's own settings, the node's where it has none.

Source: ShareGroupConfigProvider, ShareGroupConfig of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.groups.modern.settings import own_value

AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
DELIVERY_COUNT_LIMIT: Final = "share.delivery.count.limit"
PARTITION_MAX_RECORD_LOCKS: Final = "share.partition.max.record.locks"
RECORD_LOCK_DURATION: Final = "share.record.lock.duration.ms"
RENEW_ENABLE: Final = "share.renew.acknowledge.enable"

READ_COMMITTED: Final = "read_committed"


@dataclass(slots=True, kw_only=True)
class SharePartitionsConfig:
    """The node's ``group.share.*``; each pair is what the value of a group is limited to."""

    record_lock_duration_ms: int = 30_000
    record_lock_duration_bounds_ms: tuple[int, int] = (15_000, 60_000)
    delivery_count_limit: int = 5
    delivery_count_limit_bounds: tuple[int, int] = (2, 10)
    partition_max_record_locks: int = 2_000
    partition_max_record_locks_bounds: tuple[int, int] = (100, 4_000)
    share_sessions_max: int = 2_000


class ShareGroupSettings:
    """See the module.

    Args of the constructor:
        config: returns the node's settings.
        group_config: returns a group's own values.
    """

    def __init__(
        self, config: Callable[[], SharePartitionsConfig], group_config: Callable[[str], Mapping[str, str]]
    ) -> None:
        self._config = config
        self._group_config = group_config

    def record_lock_duration_ms(self, group_id: str) -> int:
        config = self._config()
        bounds = config.record_lock_duration_bounds_ms
        return own_value(self._group_config(group_id), RECORD_LOCK_DURATION, config.record_lock_duration_ms, bounds)

    def delivery_count_limit(self, group_id: str) -> int:
        config = self._config()
        return own_value(
            self._group_config(group_id),
            DELIVERY_COUNT_LIMIT,
            config.delivery_count_limit,
            config.delivery_count_limit_bounds,
        )

    def partition_max_record_locks(self, group_id: str) -> int:
        config = self._config()
        bounds = config.partition_max_record_locks_bounds
        return own_value(
            self._group_config(group_id), PARTITION_MAX_RECORD_LOCKS, config.partition_max_record_locks, bounds
        )

    def is_renew_enabled(self, group_id: str) -> bool:
        return self._group_config(group_id).get(RENEW_ENABLE, "true").lower() == "true"

    def reads_committed(self, group_id: str) -> bool:
        return self._group_config(group_id).get(ISOLATION_LEVEL, "").lower() == READ_COMMITTED

    def auto_offset_reset(self, group_id: str) -> str:
        """Return ``latest``, ``earliest`` or ``by_duration:`` with an ISO 8601 duration."""
        return self._group_config(group_id).get(AUTO_OFFSET_RESET, "latest")
