"""What one incremental fetch session holds: its partitions, what the client was sent of each, and which to look at.

So that a fetch of a thousand quiet partitions costs nothing, a session remembers which of them may have anything to
report: `PartitionWatchers` notes every change to a partition in the sessions that hold it. A partition with an error is
looked at again after `RETRY_MS`, and only some of them with each fetch: what a client may not read, or what does not
exist, costs it a request that names it, not each fetch of a session (Kafka looks up and reports all of them every
time).

Source: KIP-227; FetchSession of Apache Kafka 4.3.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.types import Offset, Uuid
from ottla.wire.messages.fetch import FetchPartition, PartitionData

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

NO_SESSION = 0
RETRY_MS: Final = 100
"""How long a partition with an error waits for the next look; Java's consumer asks for metadata as often."""
RETRIED_PER_FETCH_MAX: Final = 16
SESSION_BYTES: Final = 1_000
DROPPED_PER_SLICE: Final = 256

PartitionKey: TypeAlias = tuple[str, Uuid, int]
"""(topic name, topic id, partition); the name is empty from v13 on, the id is zero before."""


@dataclass(slots=True, eq=False)
class FetchedPartition:
    """One partition of a session: what the client wants of it, as in `FetchPartition`, and what it was sent last.

    ``partition`` is where it was found the last time. ``error_code`` is what the last response said, NONE again when
    the error is to be reported once more.
    """

    fetch_offset: Offset
    partition_max_bytes: int = 0
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: Offset = -1
    partition: "Partition | None" = None
    last_high_watermark: Offset = -2
    last_log_start_offset: Offset = -2
    error_code: int = 0
    is_watched: bool = False
    """Whether `PartitionWatchers` notes the partition's changes."""

    def update(self, wanted: FetchPartition) -> None:
        """Take what the client wants from now on; an error is then reported again."""
        self.fetch_offset = wanted.fetch_offset
        self.partition_max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.error_code = 0

    def note_sent(self, answer: PartitionData) -> bool:
        """Remember what the response says of the partition; return whether an incremental response must list it."""
        is_news = (
            bool(answer.records)
            or answer.error_code != 0
            or answer.high_watermark != self.last_high_watermark
            or answer.log_start_offset != self.last_log_start_offset
            or answer.diverging_epoch.epoch >= 0
            or answer.preferred_read_replica >= 0
        )
        self.error_code = answer.error_code
        self.last_high_watermark = answer.high_watermark
        self.last_log_start_offset = answer.log_start_offset
        return is_news


@dataclass(slots=True, eq=False)
class FetchSession:
    """See the module. A negative ``session_id``: it lasts for one fetch of many partitions, and no client knows it."""

    session_id: int
    epoch: int
    uses_topic_ids: bool
    partitions: dict[PartitionKey, FetchedPartition]
    last_used_ms: int
    created_ms: int
    is_followers: bool = False
    pending: dict[PartitionKey, None] = field(default_factory=dict)
    """Those that must be looked at when the next answer is made, in the order to look."""
    failed: OrderedDict[PartitionKey, int] = field(default_factory=OrderedDict)
    """Those with an error, and when to look at them again; what is due first comes first. (To find the first entry of a
    dictionary whose first entries were removed takes a walk over these.)"""
    notes: int = 0
    """How often a change of a partition was noted so far."""
    is_open: bool = True
    permissions: int = 0
    """Of which state of the access control entries the last answer was."""
    size_bytes: int = SESSION_BYTES

    def retry_failed(self, now_ms: int) -> None:
        """Look again at some of the partitions with errors that are due, and report what is wrong once more."""
        failed = self.failed
        for _ in range(min(RETRIED_PER_FETCH_MAX, len(failed))):
            key = next(iter(failed))
            if failed[key] > now_ms:
                return
            del failed[key]
            fetched = self.partitions.get(key)
            if fetched is not None:
                fetched.error_code = 0
                self.pending[key] = None

    def note_failed(self, key: PartitionKey, due_ms: int) -> None:
        """Leave a partition alone until ``due_ms``, or until there is news of it."""
        self.failed.pop(key, None)
        self.failed[key] = due_ms

    def remove(self, key: PartitionKey) -> bool:
        """Forget a partition; return whether the session had it."""
        self.pending.pop(key, None)
        self.failed.pop(key, None)
        return self.partitions.pop(key, None) is not None

    def drop_some(self) -> None:
        """Drop so many partitions of a session that has ended as take no longer than a slice."""
        for _ in range(min(DROPPED_PER_SLICE, len(self.partitions))):
            key, _ = self.partitions.popitem()
            self.remove(key)


@dataclass(slots=True, eq=False)
class FetchContext:
    """One request's partitions, and the session that it belongs to, if any.

    ``epoch`` is the session's behind this request; once it has another, a later request has superseded this one.
    ``forgotten`` are those that the session holds no longer.
    """

    partitions: dict[PartitionKey, FetchedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    epoch: int = 0
    size_bytes: int = SESSION_BYTES
    """Of a full fetch: what a session of its partitions takes."""
    forgotten: list[PartitionKey] = field(default_factory=list)

    @property
    def session_id(self) -> int:
        """The id that the client is given."""
        return NO_SESSION if self.session is None or self.session.session_id < 0 else self.session.session_id

    @property
    def is_superseded(self) -> bool:
        return self.session is not None and self.session.epoch != self.epoch
