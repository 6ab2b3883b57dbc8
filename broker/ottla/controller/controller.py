"""`Controller`: decides what happens to the cluster's metadata, while this node leads the quorum.

Requests are *decided* against the newest state and yield records and a response; the records are appended to the
quorum and *replayed*, which alone changes the state; the response is released when they are committed.

Source: QuorumController of Apache Kafka.
"""

from collections.abc import Sequence

from ottla.metadata.records import MetadataRecord
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotReader
from ottla.wire.codec import Message


class Controller:
    """A `RaftListener`; see the module."""

    def __init__(self, *, raft: RaftClient[MetadataRecord], clock: Clock, random: Random, node_id: int) -> None:
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        raise NotImplementedError

    def handle(self, request: Message) -> Delayed[Message]:
        """Decide ``request``; the response comes when the records behind it are committed."""
        raise NotImplementedError

    def on_committed(self, batches: Sequence[Batch[MetadataRecord]]) -> None: ...

    def on_snapshot(self, reader: SnapshotReader[MetadataRecord]) -> None: ...

    def on_leader_change(self, leader: LeaderAndEpoch) -> None: ...

    def tick(self, now_ms: int) -> None: ...

    def next_deadline_ms(self) -> int | None: ...
