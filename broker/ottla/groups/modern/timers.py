"""`RemovalTimers`: timers whose end removes a member of a group.

Source: GroupMetadataManager of Apache Kafka 4.3 (scheduleConsumerGroupSessionTimeout and the like).
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.coordinator.shard import CoordinatorTimer
from ottla.groups.log import GroupRecord
from ottla.groups.result import GroupResult

RETRY_MS: Final = 500
"""After which the removal of a member is written again, if it could not be (Kafka's constant)."""

Removal: TypeAlias = Callable[[], GroupResult | None]


class RemovalTimers:
    """The timers of one shard's members, by key."""

    def __init__(self, timer: CoordinatorTimer[GroupRecord]) -> None:
        self._timer = timer

    def schedule(self, key: tuple[str, ...], delay_ms: int, remove: Removal) -> None:
        """Call ``remove`` after a time, and again for as long as what it returns cannot be written."""
        self._timer.schedule(key, delay_ms, self._removal(key, remove))

    def schedule_if_absent(self, key: tuple[str, ...], delay_ms: int, remove: Removal) -> None:
        """Do the same, unless the timer runs already."""
        if not self._timer.is_scheduled(key):
            self.schedule(key, delay_ms, remove)

    def postpone(self, key: tuple[str, ...], delay_ms: int) -> bool:
        """Let the removal that is scheduled wait for ``delay_ms`` from now; return whether it does."""
        return self._timer.postpone(key, delay_ms)

    def _removal(self, key: tuple[str, ...], remove: Removal) -> Removal:
        def run() -> GroupResult | None:
            result = remove()
            if result is not None:
                self._timer.schedule(key, RETRY_MS, run)
            return result

        return run

    def cancel(self, key: tuple[str, ...]) -> None:
        self._timer.cancel(key)
