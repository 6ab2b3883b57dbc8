"""`CoordinatorShard`: the state machine of one partition, which a coordinator supplies to the runtime.

Source: CoordinatorShard, CoordinatorTimer of Apache Kafka's coordinator-common.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ottla.coordinator.result import CoordinatorResult
from ottla.types import Offset, ProducerId

RecordT = TypeVar("RecordT")


class CoordinatorShard(Protocol[RecordT]):
    """State that is rebuilt from records.

    The operations on a shard (functions from the shard and a request to a `CoordinatorResult`) decide: they change
    nothing that a record stores. `replay` changes that state, both when the log is loaded and after a write.
    """

    def replay(self, record: RecordT, producer_id: ProducerId) -> None:
        """Change state as ``record`` says.

        ``producer_id`` is NO_PRODUCER_ID, or that of the open transaction in which the record was written.

        Raises:
            ProtocolError: the record contradicts itself; nothing has changed, and a load skips it.
        """

    def replay_end_transaction_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """End the producer's transaction: what it has written counts from now on, or never."""

    def on_loaded(self) -> Iterable[CoordinatorResult[RecordT, None]]:
        """Start timers; return what is to be written now that the whole log has been replayed."""

    def on_unloaded(self) -> None:
        """Complete every response that waits for an event of this shard with NOT_COORDINATOR.

        Called at most once, also for a shard that was still being loaded; its timers are cancelled already.
        """

    def describe_contents(self) -> str:
        """Return what it holds, for the log: "12 groups"."""


class CoordinatorTimer(Protocol[RecordT]):
    """Timers of one shard, by key. They end with the shard."""

    def schedule(
        self,
        key: tuple[str, ...],
        delay_ms: int,
        operation: Callable[[], CoordinatorResult[RecordT, None] | None],
    ) -> None:
        """Run ``operation`` ``delay_ms`` from now and write its result; replaces what ``key`` had scheduled before."""

    def is_scheduled(self, key: tuple[str, ...]) -> bool:
        """Return whether ``key`` has something scheduled that has not run yet."""

    def postpone(self, key: tuple[str, ...], delay_ms: int) -> bool:
        """Let what ``key`` has scheduled run ``delay_ms`` from now.

        Return False if it has nothing scheduled, or only for later: nothing has changed.
        """

    def cancel(self, key: tuple[str, ...]) -> None:
        """Remove what ``key`` has scheduled, if anything."""


class CoordinatorPartition(CoordinatorTimer[RecordT], Protocol[RecordT]):
    """What a shard may use of its partition: `coordinator.context.CoordinatorContext`."""

    def replayed_offset(self) -> Offset:
        """Return the offset of the record that is being replayed, or that of an earlier one in the same batch."""
