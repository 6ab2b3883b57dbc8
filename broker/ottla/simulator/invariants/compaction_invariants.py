"""The invariant of compaction; one more of `invariants`."""

from collections.abc import Iterable

from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import Invariant, SegmentReplacement
from ottla.types import Offset
from ottla.wire.records import Record, RecordBatch, read_records

_DECOMPRESSED_BYTES_MAX = 1 << 24


class CompactionKeepsTheLastOfEachKey(Invariant):
    """A compacted log has, for each key, what the full log had last, at its offset; only committed records are removed.

    Checked before each replacement, on the files of that node.
    """

    def on_replacement(self, replacement: SegmentReplacement) -> None:
        segment = replacement.segment
        where = f"CompactionKeepsTheLastOfEachKey: {replacement.key} on node {replacement.place.node_id}"
        high_watermark = replacement.partition.log.high_watermark
        if segment.cleaned and segment.cleaned[-1].next_offset > high_watermark:
            raise InvariantViolation(
                f"{where} is compacted up to {segment.cleaned[-1].next_offset}; committed is {high_watermark}"
            )
        replaced, cleaned = _records_of(segment.batches), _records_of(segment.cleaned)
        last: dict[bytes | None, Offset] = {}
        for offset, record in sorted((replaced | cleaned | _records_of(segment.others)).items()):
            last[record.key] = offset
        for offset, record in replaced.items():
            if last[record.key] == offset and record.value is not None and cleaned.get(offset) != record:
                raise InvariantViolation(f"{where} loses {record.value!r} at {offset}, the last record of its key")
            if offset in cleaned and cleaned[offset] != record:
                raise InvariantViolation(f"{where} has {cleaned[offset]} at {offset} instead of {record}")


def _records_of(batches: Iterable[RecordBatch]) -> dict[Offset, Record]:
    return {
        record.offset: record
        for batch in batches
        for record in read_records(batch, size_bytes_max=_DECOMPRESSED_BYTES_MAX)
    }
