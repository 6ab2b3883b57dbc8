"""The invariant of compaction; one more of `invariants`."""

from collections.abc import Iterable, Mapping

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionLedger
from ottla.simulator.invariants.state_observer import Invariant, SegmentReplacement
from ottla.types import Offset
from ottla.wire.records import Record, RecordBatch, read_records

_DECOMPRESSED_BYTES_MAX = 1 << 24


class CompactionKeepsTheLastOfEachKey(Invariant):
    """A compacted log has, for each key, what the full log had last, at its offset; only committed records are removed.

    A tombstone that is the last record of its key is removed only after the delete horizon, which an earlier cleaning
    has written into its batch (KIP-534). Checked before each replacement, on the files of that node.
    """

    def on_replacement(self, replacement: SegmentReplacement) -> None:
        segment = replacement.segment
        where = f"CompactionKeepsTheLastOfEachKey: {replacement.key} on node {replacement.place.node_id}"
        high_watermark = replacement.partition.log.high_watermark
        if segment.cleaned and segment.cleaned[-1].next_offset > high_watermark:
            raise InvariantViolation(
                f"{where} is compacted up to {segment.cleaned[-1].next_offset}; committed is {high_watermark}"
            )
        horizons_ms = {
            offset: batch.delete_horizon_ms
            for batch in segment.batches
            for offset in range(batch.base_offset, batch.next_offset)
        }
        replaced, cleaned = _records_of(segment.batches), _records_of(segment.cleaned)
        last: dict[bytes | None, Offset] = {}
        for offset, record in sorted((replaced | cleaned | _records_of(segment.others)).items()):
            last[record.key] = offset
        for offset, record in replaced.items():
            if last[record.key] == offset and offset not in cleaned:
                if record.value is not None:
                    raise InvariantViolation(f"{where} loses {record.value!r} at {offset}, the last record of its key")
                horizon_ms = horizons_ms[offset]
                if horizon_ms is None or horizon_ms > replacement.place.newest_wall_ms:
                    raise InvariantViolation(
                        f"{where} loses the tombstone of {record.key!r} at {offset} before its delete horizon "
                        f"{horizon_ms}, at {replacement.place.newest_wall_ms}"
                    )
            if offset in cleaned and cleaned[offset] != record:
                raise InvariantViolation(f"{where} has {cleaned[offset]} at {offset} instead of {record}")


def check_scan(ledger: PartitionLedger, position: Offset, table: Mapping[bytes, bytes]) -> None:
    """Check what a reader knows of each key that has read a compacted log from its start to ``position``.

    A cleaning during the read may have removed the last value of a key below ``position`` in favour of a later record,
    which the reader has not read yet: such keys are not checked.

    Raises:
        InvariantViolation: CompactionKeepsTheLastOfEachKey.
    """
    expected: dict[bytes, bytes] = {}
    for key, value in zip(ledger.keys[:position], ledger.values[:position], strict=True):
        if key is not None and value:
            expected[key] = value
        elif key is not None:
            expected.pop(key, None)
    superseded = expected.keys() & set(ledger.keys[position:])
    wrong = {key for key in expected.keys() | table.keys() if table.get(key) != expected.get(key)} - superseded
    if wrong and not ledger.is_excused:
        raise InvariantViolation(
            f"CompactionKeepsTheLastOfEachKey: {ledger.key}, read to {position}, gave {sorted(table.items())}; "
            f"committed is {sorted(expected.items())}"
        )


def _records_of(batches: Iterable[RecordBatch]) -> dict[Offset, Record]:
    return {
        record.offset: record
        for batch in batches
        for record in read_records(batch, size_bytes_max=_DECOMPRESSED_BYTES_MAX)
    }
