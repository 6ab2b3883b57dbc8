"""`GroupShard`: the groups and offsets of one partition of ``__consumer_offsets``, as its leader holds them.

Operations decide (they return a `Result`); `write` appends the records and, once the log has taken them, `replay`
changes state: the same `replay` that loads the log after an election. Members, generations and timers of classic groups
are ahead of the log, as in Kafka: they are soft until SyncGroup stores them, and clients join again when they are lost.

A write that the log refuses at once changes nothing. One that fails later (the partition has another leader by now, or
its disk failed) leaves memory and log apart: the shard stops, and serves again only when it is loaded anew.

Source: CoordinatorRuntime, GroupCoordinatorShard of Kafka.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Final

from ottla.coordinator.log import CoordinatorLog
from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.records import group_of
from ottla.groups.config import GroupConfig
from ottla.groups.log import GroupRecord, decode, encode_batch
from ottla.groups.offsets.removal import expire_offsets
from ottla.groups.offsets.store import OffsetKey, OffsetStore
from ottla.groups.result import Result, append_error_to_response_error
from ottla.groups.timers import Timers
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.types import LeaderEpoch
from ottla.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.records import (
    NO_PRODUCER_ID,
    ControlRecordType,
    Record,
    RecordBatch,
    parse_control_key,
    read_records,
)

log = logging.getLogger(__name__)

LOADED_RECORDS_PER_STEP: Final = 500
"""A few milliseconds of work: what one tick may take from the node's loop."""
LOADED_BATCH_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a batch may decompress to. Kafka appends none above ``segment.bytes``; real ones are far below a megabyte."""
RECORDS_PER_BATCH_MAX: Final = 500
"""How many tombstones of an expiry go into one batch: far below ``max.message.bytes``."""


class ShardState(Enum):
    """Loading until the log is read; Stopped by a resignation, an unreadable log or a lost write, for good."""

    LOADING = auto()
    ACTIVE = auto()
    STOPPED = auto()


class GroupShard:
    """One led partition. Times are monotonic, those in records the wall clock's."""

    def __init__(
        self,
        *,
        partition: int,
        leader_epoch: LeaderEpoch,
        batches: Iterable[RecordBatch],
        config: GroupConfig,
        clock: Clock,
        random: Random,
        timers: Timers,
        offsets_log: CoordinatorLog,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.offsets = OffsetStore()
        self.rebalancer = Rebalancer(config=config, clock=clock, random=random, timers=self)
        self._config = config
        self._clock = clock
        self._timers = timers
        self._log = offsets_log
        self._loading: Iterator[Record | None] = self._replay_all(batches)
        self._last_append: Delayed[ErrorCode] = Delayed.of(ErrorCode.NONE)
        self._waiting: dict[int, Delayed[ErrorCode]] = {}
        self._write_sequence = 0

    # Loading and stopping

    def load(self) -> None:
        """Replay the next piece of the log; Active behind its end, Stopped when it cannot be read."""
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        try:
            for _ in range(LOADED_RECORDS_PER_STEP):
                next(self._loading)
        except StopIteration:
            self._start()
        except (ProtocolError, KafkaError, OSError) as error:
            log.error(
                "__consumer_offsets-%d cannot be loaded, its groups are not served: %s. Look at it with "
                "`ottla log dump`; another replica may be sound, so move the leadership.",
                self.partition,
                error,
            )
            self.stop()

    has_lost_write = False
    """Whether it was stopped by a write that its log refused: it knows what is not written, and must load anew."""

    def stop(self) -> None:
        """Answer everything that waits with NOT_COORDINATOR; serve no more."""
        if self.state is ShardState.STOPPED:
            return
        self.state = ShardState.STOPPED
        self._timers.cancel_where(lambda key: isinstance(key, tuple) and key[0] == self.partition)
        self.rebalancer.stop()
        waiting, self._waiting = self._waiting, {}
        for outcome in waiting.values():
            outcome.complete(ErrorCode.NOT_COORDINATOR)

    def _start(self) -> None:
        self.state = ShardState.ACTIVE
        log.info("__consumer_offsets-%d is loaded: %d groups", self.partition, len(self.rebalancer.groups))
        for result in self.rebalancer.start():
            self.write(result)
        self._plan_expiry()

    def _replay_all(self, batches: Iterable[RecordBatch]) -> Iterator[Record | None]:
        """Replay record by record, so that `load` can pause anywhere; yields what it has replayed."""
        for batch in batches:
            records = read_records(batch, size_bytes_max=LOADED_BATCH_SIZE_BYTES_MAX)
            for record in records:
                if batch.is_control:
                    self._replay_control(batch, record)
                elif record.key is not None:
                    loaded = decode(record.key, record.value)
                    if loaded is not None:
                        self.replay(loaded, batch.producer_id)
                yield record

    def _replay_control(self, batch: RecordBatch, record: Record) -> None:
        kind = parse_control_key(record.key)
        if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            self.offsets.end_transaction(batch.producer_id, commit=kind is ControlRecordType.COMMIT)

    # State

    def replay(self, record: GroupRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Change state as ``record`` says; ``producer_id`` is set where a transaction wrote it."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue), "log.decode pairs keys and values"
            self._replay_offset(OffsetKey(key.group, key.topic, key.partition), value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self.rebalancer.discard(key.group)
            if value is not None:
                assert isinstance(value, GroupMetadataValue), "log.decode pairs keys and values"
                self.rebalancer.groups[key.group] = group_of(key.group, value)

    def _replay_offset(self, key: OffsetKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        if value is None:
            self.offsets.remove(key)
            return
        # A group that only commits offsets has no record of its own.
        self.rebalancer.get_or_create(key.group_id)
        if producer_id == NO_PRODUCER_ID:
            self.offsets.put(key, value)
        else:
            self.offsets.put_pending(producer_id, key, value)

    # Writing

    def write(self, result: Result | None) -> Delayed[ErrorCode]:
        """Append what an operation has decided.

        Returns:
            NONE when the records, and all before them, are committed; else what to tell the client. Without records:
            when all that the operation may have seen is committed.
        """
        if result is None or not result.records:
            if self._last_append.is_complete:
                return Delayed.of(ErrorCode.NONE)
            return self._when_committed(self._last_append, Delayed())
        batch = encode_batch(result.records, timestamp_ms=self._clock.wall_ms())
        appended = self._log.append(self.partition, batch)
        if appended.is_complete and appended.value is not ErrorCode.NONE:
            log.warning(
                "__consumer_offsets-%d refused %d records: %s",
                self.partition,
                len(result.records),
                appended.value.name,
            )
        elif result.replay:
            for record in result.records:
                self.replay(record)
        outcome: Delayed[ErrorCode] = Delayed()
        if result.on_append is not None:
            self._continue_with(result.on_append, outcome)
        if appended.is_complete:
            outcome.complete(append_error_to_response_error(appended.value))
            return outcome
        self._last_append = appended
        return self._when_committed(appended, outcome)

    def _continue_with(self, on_append: "Callable[[ErrorCode], Result | None]", outcome: Delayed[ErrorCode]) -> None:
        def go_on(error: ErrorCode) -> None:
            following = on_append(error)
            if following is not None and self.state is ShardState.ACTIVE:
                self.write(following)

        outcome.on_complete(go_on)

    def _when_committed(self, appended: Delayed[ErrorCode], outcome: Delayed[ErrorCode]) -> Delayed[ErrorCode]:
        """Complete ``outcome`` with the commit of ``appended``, with the time limit for it, or when the shard stops."""
        self._write_sequence += 1
        sequence = self._write_sequence
        self._waiting[sequence] = outcome
        key = (self.partition, "commit", sequence)
        timed_out = append_error_to_response_error(ErrorCode.REQUEST_TIMED_OUT)
        deadline_ms = self._clock.monotonic_ms() + self._config.offset_commit_timeout_ms
        self._timers.schedule(key, deadline_ms, lambda: outcome.complete(timed_out))

        def on_appended(error: ErrorCode) -> None:
            self._timers.cancel(key)
            self._waiting.pop(sequence, None)
            outcome.complete(append_error_to_response_error(error))
            # What is late is in this leader's log, and stays there for as long as it leads.
            is_lost = error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
            if is_lost and self.state is not ShardState.STOPPED:
                log.warning("__consumer_offsets-%d lost a write: %s", self.partition, error.name)
                self.stop()
                self.has_lost_write = True

        appended.on_complete(on_appended)
        return outcome

    # Time

    def schedule(self, key: tuple[str, ...], delay_ms: int, operation: "Callable[[], Result | None]") -> None:
        """Plan ``operation``, whose result is written then.

        At the earliest for the next millisecond: a client may ask for a rebalance timeout of 0, and what plans itself
        anew must not keep the node from anything else.
        """
        deadline_ms = self._clock.monotonic_ms() + max(delay_ms, 1)
        self._timers.schedule((self.partition, *key), deadline_ms, lambda: self.write(operation()))

    def cancel(self, key: tuple[str, ...]) -> None:
        self._timers.cancel((self.partition, *key))

    def expire(self) -> None:
        """Write the tombstones of offsets and groups that have expired."""
        now_ms = self._clock.wall_ms()
        expired: list[GroupRecord] = []
        for group in self.rebalancer.groups.values():
            expired += expire_offsets(
                self.offsets, group, now_ms=now_ms, retention_ms=self._config.offsets_retention_ms
            )
        self.write_in_pieces(expired)

    def write_in_pieces(self, records: list[GroupRecord]) -> None:
        """Write records that need not be stored together; a piece that the log refuses is tried again another time."""
        for start in range(0, len(records), RECORDS_PER_BATCH_MAX):
            self.write(Result(records=records[start : start + RECORDS_PER_BATCH_MAX]))

    def _plan_expiry(self) -> None:
        def expire_and_plan() -> None:
            self.expire()
            self._plan_expiry()

        deadline_ms = self._clock.monotonic_ms() + self._config.offsets_retention_check_interval_ms
        self._timers.schedule((self.partition, "expiry"), deadline_ms, expire_and_plan)
