"""The origin and the result of an append by the leader."""

from enum import Enum
from typing import NamedTuple

from ottla.types import Offset

NO_OFFSET = -1


class AppendOrigin(Enum):
    """The source of the records that a leader appends; it decides how much is checked."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A group or transaction coordinator on this node: control batches allowed, sequences not checked."""
    RAFT_LEADER = "raft leader"
    """The metadata quorum's leader: offsets and epoch are already in the batches and are kept."""


class AppendResult(NamedTuple):
    """Offsets and timestamp of an append.

    Attributes:
        first_offset: offset of the first record; -1 when there was nothing to append.
        last_offset: offset of the last record; -1 likewise.
        log_append_time_ms: the broker's timestamp with LogAppendTime, else -1.
        log_start_offset: of the log, for the response.
        is_duplicate: the producer sent this batch before; the offsets are those of that time, nothing was written.
    """

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    is_duplicate: bool = False
