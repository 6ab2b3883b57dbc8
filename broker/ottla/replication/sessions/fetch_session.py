"""One incremental fetch session: its partitions, what the client was sent of each, and which ones to check.

So that a fetch of a thousand quiet partitions costs nothing, a session records which of them may have anything to
report: `PartitionWatchers` notes every change to a partition in the sessions that hold it. A partition with an error is
checked again after `RETRY_MS`, and only some of them with each fetch: a partition that does not exist, or that the
client may not read, costs it a request that names it, not each fetch of a session (Kafka looks up and reports all of
them every time).

Source: KIP-227; FetchSession of Apache Kafka 4.3.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.replication.isr.remote_replica import LONG_AGO_MS
from ottla.types import Offset, Uuid
from ottla.wire.messages.fetch import FetchPartition, PartitionData

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

NO_SESSION = 0
RETRY_MS: Final = 100
"""Interval between checks of a partition with an error; Java's consumer requests metadata as often."""
RETRIED_PER_FETCH_MAX: Final = 16
SESSION_BYTES: Final = 1_000
DROPPED_PER_SLICE: Final = 256

PartitionKey: TypeAlias = tuple[str, Uuid, int]
"""(topic name, topic id, partition); the name is empty from v13 on, the id is zero before."""


@dataclass(slots=True, eq=False)
class FetchedPartition:
    """One partition of a session: the client's last request, as in `FetchPartition`, and what it was sent last.

    ``partition`` caches the last lookup. ``error_code`` is that of the last response, or NONE when the error must be
    reported once more.
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
        """Apply the client's new request; an error is then reported again."""
        self.fetch_offset = wanted.fetch_offset
        self.partition_max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.error_code = 0

    def note_sent(self, data: PartitionData) -> bool:
        """Remember what the response has of the partition; return whether an incremental response must list it."""
        is_changed = (
            bool(data.records)
            or data.error_code != 0
            or data.high_watermark != self.last_high_watermark
            or data.log_start_offset != self.last_log_start_offset
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
        )
        self.error_code = data.error_code
        self.last_high_watermark = data.high_watermark
        self.last_log_start_offset = data.log_start_offset
        return is_changed


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
    responded_ms: int = LONG_AGO_MS
    """When the last response to a follower was built."""
    confirmed_ms: int = LONG_AGO_MS
    """When the last response was built that the follower has certainly received: it has sent a request after it."""
    pending: dict[PartitionKey, None] = field(default_factory=dict)
    """Partitions to check for the next response, in this order."""
    failed: OrderedDict[PartitionKey, int] = field(default_factory=OrderedDict)
    """Partitions with an error by the time of their next check, earliest first. (Ordered, because finding the first
    entry of a plain dictionary takes a walk over the entries that were removed before it.)"""
    notes: int = 0
    """Number of noted changes of partitions."""
    is_open: bool = True
    permissions: int = 0
    """Version of the access control entries that the last response was checked against."""
    size_bytes: int = SESSION_BYTES

    def retry_failed(self, now_ms: int) -> None:
        """Check some of the partitions with errors that are due again, and report their errors once more."""
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
        """Do not check a partition until ``due_ms``, or until it changes."""
        self.failed.pop(key, None)
        self.failed[key] = due_ms

    def remove(self, key: PartitionKey) -> bool:
        """Remove a partition; return whether the session had it."""
        self.pending.pop(key, None)
        self.failed.pop(key, None)
        return self.partitions.pop(key, None) is not None

    def drop_some(self) -> None:
        """Drop as many partitions of a session that has ended as fit a slice."""
        for _ in range(min(DROPPED_PER_SLICE, len(self.partitions))):
            key, _ = self.partitions.popitem()
            self.remove(key)


@dataclass(slots=True, eq=False)
class FetchContext:
    """One request's partitions, and its session, if any.

    ``epoch`` is the session's epoch after this request; once it has another, a later request has superseded this one.
    ``removed`` are partitions that the request removed from the session.
    """

    partitions: dict[PartitionKey, FetchedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    epoch: int = 0
    size_bytes: int = SESSION_BYTES
    """Of a full fetch: the size of a session with its partitions."""
    removed: list[PartitionKey] = field(default_factory=list)

    @property
    def session_id(self) -> int:
        """The session id in the response."""
        return NO_SESSION if self.session is None or self.session.session_id < 0 else self.session.session_id

    @property
    def is_superseded(self) -> bool:
        return self.session is not None and self.session.epoch != self.epoch
