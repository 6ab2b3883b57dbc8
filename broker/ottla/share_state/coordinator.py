"""`ShareCoordinator`: the share-partitions whose partition of ``__share_group_state`` this node leads.

It has the interface of `Persister`: the client of the same node calls it directly.

Source: ShareCoordinatorService, ShareCoordinatorShard of Apache Kafka 4.3.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from ottla.coordinator.context import ContextState
from ottla.coordinator.log import CoordinatorLog
from ottla.coordinator.partitioner import partition_for_hash
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.java_hashes import string_hash
from ottla.metadata.delta import MetadataDelta
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.share_state.config import ShareStateConfig
from ottla.share_state.log import SHARE_RECORD_SERDE, ShareRecord, ShareSnapshot, ShareState
from ottla.share_state.messages import message_of
from ottla.share_state.persister import (
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    ReadState,
    Result,
    SharePartitionKey,
    StateResult,
    StateSummary,
    StateWrite,
)
from ottla.share_state.shard import NO_EPOCH, SharePartition, ShareShard, Topics
from ottla.types import SHARE_GROUP_STATE_TOPIC, LeaderEpoch, Offset, format_uuid, parse_uuid
from ottla.wire.records import RecordBatch

BATCHES_PER_WRITE_MAX: Final = 10_000
"""The largest ``group.share.partition.max.record.locks``: no leader has more records in flight."""

_COORDINATOR_KEY: Final = re.compile(
    r"(?P<group>.+):(?P<topic>[A-Za-z0-9_-]{22}(==)?):(?P<sign>[+-]?)(?P<digits>[0-9]+)", re.ASCII | re.DOTALL
)
_KEPT_GROUP_LENGTH_MAX: Final = 128
_INT32_DIGITS: Final = 10
_Change: TypeAlias = CoordinatorResult[ShareRecord, StateResult]
_DONE: Final = StateResult(ErrorCode.NONE)


def coordinator_hash(key: SharePartitionKey) -> int:
    """Return Java's hash of ``group:topic:partition``, which selects the partition of ``__share_group_state``."""
    return _kept_hash(key) if len(key.group_id) <= _KEPT_GROUP_LENGTH_MAX else _hash(key)


def _hash(key: SharePartitionKey) -> int:
    rest = f":{format_uuid(key.topic_id)}:{key.partition}"
    return (_group_hash(key.group_id) * pow(31, len(rest), 2**32) + string_hash(rest)) % 2**32


_kept_hash = lru_cache(maxsize=16_384)(_hash)
_group_hash = lru_cache(maxsize=64)(string_hash)
"""A group id may have 32,767 bytes, which takes 2.8 ms: once for all partitions of a request."""


def parse_coordinator_key(text: str) -> SharePartitionKey | None:
    """Return the key that a FindCoordinator request has as text; None if it is none. A group id may have colons.

    Source: SharePartitionKey.getInstance of Apache Kafka 4.3, which drops colons at the end.
    """
    found = _COORDINATOR_KEY.fullmatch(text.rstrip(":"))
    if found is None or not found["group"].strip():
        return None
    digits = found["digits"].lstrip("0") or "0"
    if len(digits) > _INT32_DIGITS:
        # Python converts no more than some thousand digits.
        return None
    partition = int(found["sign"] + digits)
    if not -(2**31) <= partition < 2**31:
        return None
    return SharePartitionKey(found["group"], parse_uuid(found["topic"]), partition)


class ShareCoordinator:
    """The share coordinator of one node; a part of it, and a user of `CoordinatorPublisher`.

    Args of the constructor:
        topics: the cluster's topics.
        partition_count: returns the number of partitions of ``__share_group_state``; None while it does not exist.
    """

    def __init__(
        self,
        *,
        config: ShareStateConfig,
        clock: Clock,
        log: CoordinatorLog,
        topics: Topics,
        partition_count: Callable[[], int | None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._log = log
        self._partition_count = partition_count
        self._next_prune_ms = clock.monotonic_ms() + config.prune_interval_ms

        def build_shard(partition: CoordinatorPartition[ShareRecord]) -> ShareShard:
            return ShareShard(config=config, clock=clock, partition=partition, topics=topics)

        settings = CoordinatorSettings(
            topic_name=SHARE_GROUP_STATE_TOPIC,
            partition_count=partition_count,
            serde=SHARE_RECORD_SERDE,
            build_shard=build_shard,
            write_timeout_ms=config.write_timeout_ms,
        )
        self._runtime = CoordinatorRuntime(settings=settings, clock=clock, log=log)

    # The node's side

    def partition_for(self, key: SharePartitionKey) -> int | None:
        """Return the partition of ``__share_group_state`` that holds the key; None while there is no such topic."""
        count = self._partition_count()
        return None if count is None else partition_for_hash(coordinator_hash(key), count)

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """See `CoordinatorRuntime.on_elected`."""
        self._runtime.on_elected(partition, leader_epoch, batches)

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """See `CoordinatorRuntime.on_resigned`."""
        self._runtime.on_resigned(partition, leader_epoch)

    def on_metadata_update(self, delta: MetadataDelta) -> None:
        """Remove the state of topics that are gone."""
        deleted = delta.topics.deleted_topics
        if deleted:
            for shard in self._runtime.active_shards():
                shard.delete_topics(deleted)

    def tick(self, now_ms: int) -> int | None:
        """Do what is due, and return when the next call is due."""
        if now_ms >= self._next_prune_ms:
            self._next_prune_ms = now_ms + self._config.prune_interval_ms
            self._prune()
        due_ms = self._runtime.tick(now_ms)
        return self._or_prune(due_ms)

    def next_deadline_ms(self) -> int | None:
        return self._or_prune(self._runtime.next_deadline_ms())

    def _or_prune(self, due_ms: int | None) -> int | None:
        """Return when the next call is due; a node that leads no partition has nothing to prune."""
        if not self._runtime.is_serving:
            return due_ms
        return self._next_prune_ms if due_ms is None else min(due_ms, self._next_prune_ms)

    def _prune(self) -> None:
        """Delete what the snapshots in the log have replaced, once these are committed."""
        for context in self._runtime.active_contexts():
            delete = partial(self._delete_before, context.partition, context.shard.redundant_before)
            context.when_committed().on_complete(delete)

    def _delete_before(self, partition: int, offset: Offset, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._log.delete_before(partition, offset)

    def count_partitions(self) -> Counter[ContextState]:
        """See `CoordinatorRuntime.count_partitions`."""
        return self._runtime.count_partitions()

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return self._runtime.is_loading

    # Persister

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: Offset) -> Delayed[StateResult]:
        def decide(shard: ShareShard) -> _Change:
            _check_partition(key)
            found = shard.partitions.get(key)
            if found is not None:
                _check_state_epoch(found, state_epoch)
            _require_partition(shard, key)
            now_ms = shard.clock.wall_ms()
            state = ShareState(
                0 if found is None else found.state.snapshot_epoch + 1,
                state_epoch,
                0,
                start_offset,
                UNKNOWN_COUNT if start_offset == UNINITIALIZED_OFFSET else 0,
                create_ms=now_ms,
                write_ms=now_ms,
            )
            return CoordinatorResult(records=[ShareSnapshot(key, state)], response=_DONE)

        return self._run(key, decide, StateResult, "initialize share group state")

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        def decide(shard: ShareShard) -> CoordinatorResult[ShareRecord, ReadState]:
            _check_partition(key)
            found = _require_initialized(shard, key, "Read")
            _check_leader_epoch(found, leader_epoch)
            _require_partition(shard, key)
            state = found.state
            response = ReadState(ErrorCode.NONE, None, state.state_epoch, state.start_offset, state.batches)
            if leader_epoch in (NO_EPOCH, found.leader_epoch):
                return CoordinatorResult(response=response)
            record = shard.change(
                key,
                leader_epoch=leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
                batches=(),
            )
            return CoordinatorResult(records=[record], response=response)

        return self._run(key, decide, ReadState, "read share group state", is_read=True)

    def read_summary(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[StateSummary]:
        """Read without batches; Kafka compares ``leader_epoch`` with nothing."""

        def read(shard: ShareShard) -> CoordinatorResult[ShareRecord, StateSummary]:
            _check_partition(key)
            _require_partition(shard, key)
            found = shard.partitions.get(key)
            if found is None:
                return CoordinatorResult(response=StateSummary(ErrorCode.NONE))
            state = found.state
            response = StateSummary(
                ErrorCode.NONE,
                None,
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            )
            return CoordinatorResult(response=response)

        return self._run(key, read, StateSummary, "read share group state summary", is_read=True)

    def write(self, key: SharePartitionKey, write: StateWrite) -> Delayed[StateResult]:
        def decide(shard: ShareShard) -> _Change:
            _check_partition(key)
            found = _require_initialized(shard, key, "Write")
            _check_leader_epoch(found, write.leader_epoch)
            _check_state_epoch(found, write.state_epoch)
            _require_partition(shard, key)
            count = len(write.batches)
            if count > BATCHES_PER_WRITE_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A write has at most {BATCHES_PER_WRITE_MAX} state batches of a partition, not {count}.",
                )
            record = shard.change(
                key,
                leader_epoch=found.state.leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                batches=write.batches,
            )
            return CoordinatorResult(records=[record], response=_DONE)

        return self._run(key, decide, StateResult, "write share group state")

    def delete(self, key: SharePartitionKey) -> Delayed[StateResult]:
        def decide(shard: ShareShard) -> _Change:
            _check_partition(key)
            _require_partition(shard, key)
            records: list[ShareRecord] = [ShareSnapshot(key, None)] if key in shard.partitions else []
            return CoordinatorResult(records=records, response=_DONE)

        return self._run(key, decide, StateResult, "delete share group state")

    def _run(
        self,
        key: SharePartitionKey,
        decide: Callable[[ShareShard], CoordinatorResult[ShareRecord, Any]],
        result: Callable[..., Result],
        operation: str,
        *,
        is_read: bool = False,
    ) -> Delayed[Any]:
        """Run an operation; an error of the shard has its own message, one of the runtime says what has failed.

        A read must be the latest: a replaced coordinator does not know of its successor.
        """

        def decide_or_fail(shard: ShareShard) -> CoordinatorResult[ShareRecord, Any]:
            try:
                return decide(shard)
            except KafkaError as error:
                return CoordinatorResult(response=result(error.code, error.message))

        def on_error(error: ErrorCode) -> Result:
            return result(error, f"Unable to {operation}: {message_of(error)}")

        partition = self.partition_for(key)
        if is_read:
            try:
                self._runtime.context_of(partition).require_confirmed_leadership()
            except KafkaError as error:
                return Delayed.of(on_error(error.code))
        return self._runtime.run_write_operation_in(partition, decide_or_fail, on_error)


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _require_initialized(shard: ShareShard, key: SharePartitionKey, operation: str) -> SharePartition:
    found = shard.partitions.get(key)
    if found is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed."
        )
    return found


def _check_leader_epoch(found: SharePartition, leader_epoch: LeaderEpoch) -> None:
    if leader_epoch != NO_EPOCH and found.leader_epoch > leader_epoch:
        raise _error(ErrorCode.FENCED_LEADER_EPOCH)


def _check_state_epoch(found: SharePartition, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and found.state_epoch > state_epoch:
        raise _error(ErrorCode.FENCED_STATE_EPOCH)


def _require_partition(shard: ShareShard, key: SharePartitionKey) -> None:
    if not shard.has_partition(key):
        raise _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _error(code: ErrorCode) -> KafkaError:
    return KafkaError(code, message_of(code))
