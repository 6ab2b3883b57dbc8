"""`VoterHistory`: the voters and the kraft.version that apply from each offset of the log on.

The voters of a control record take effect when it is in the log, committed or not (KIP-853); a truncation of the log
removes them. A snapshot needs those that applied at its end, which may be older than the newest.

Source: KRaftControlRecordStateMachine and VoterSetHistory of Apache Kafka.
"""

from collections.abc import Iterable
from typing import Final

from ottla.raft.control_batch import read_control_batch
from ottla.raft.voter_set import VoterSet
from ottla.types import Offset
from ottla.wire.messages.control_records import KRaftVersionRecord, VotersRecord
from ottla.wire.records import RecordBatch

STATIC: Final = -1
"""The offset of voters that come from the configuration, or from the snapshot that `format` wrote."""


class VoterHistory:
    """See the module. ``static_voters`` apply until the log has others."""

    def __init__(self, static_voters: VoterSet | None) -> None:
        self._voters: list[tuple[Offset, VoterSet]] = [(STATIC, static_voters or VoterSet({}))]
        self._versions: list[tuple[Offset, int]] = [(STATIC, 0)]

    @property
    def voters(self) -> VoterSet:
        """The newest voter set, whether committed or not."""
        return self._voters[-1][1]

    @property
    def voters_offset(self) -> Offset:
        """Offset of the newest voters in the log; `STATIC` while they are not in it."""
        return self._voters[-1][0]

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1]

    @property
    def is_in_log(self) -> bool:
        """Whether the log itself, or a snapshot of it, names the voters."""
        return self._voters[-1][0] != STATIC

    def voters_below(self, end_offset: Offset) -> VoterSet:
        """Return the voters that apply to a log that ends at ``end_offset``."""
        return next(voters for offset, voters in reversed(self._voters) if offset < end_offset)

    def kraft_version_below(self, end_offset: Offset) -> int:
        return next(version for offset, version in reversed(self._versions) if offset < end_offset)

    def load_snapshot(self, end_offset: Offset, kraft_version: int, voters: VoterSet | None) -> None:
        """Replace everything by the contents of the snapshot that ends at ``end_offset``."""
        if kraft_version == 0 or voters is None:
            self.truncate(0)
            return
        offset = end_offset - 1 if end_offset > 0 else STATIC
        self._voters = [(STATIC, VoterSet({})), (offset, voters)] if offset != STATIC else [(STATIC, voters)]
        self._versions = [(STATIC, 0), (offset, kraft_version)] if offset != STATIC else [(STATIC, kraft_version)]

    def read(self, batches: Iterable[RecordBatch]) -> bool:
        """Apply the control records of the log, in order; return whether the voters changed.

        Raises:
            CorruptRecordError, ProtocolError: a batch is corrupt.
        """
        changed = False
        for batch in batches:
            if not batch.is_control:
                continue
            for offset, message in read_control_batch(batch):
                if isinstance(message, KRaftVersionRecord):
                    self._versions.append((offset, message.kraft_version))
                elif isinstance(message, VotersRecord):
                    self._voters.append((offset, VoterSet.from_message(message)))
                    changed = True
        return changed

    def truncate(self, end_offset: Offset) -> bool:
        """Remove entries from ``end_offset`` on; return whether the voters changed."""
        before = self.voters
        self._voters = [entry for entry in self._voters if entry[0] < end_offset]
        self._versions = [entry for entry in self._versions if entry[0] < end_offset]
        return self.voters != before
