"""A model test: whatever is appended, cleaned and lost, readers find the last committed record of each key."""

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from compacted_log import CompactedLog
from ottla.log.cleaner.config import CleanerConfig
from ottla.wire.records import Compression, Record

EXAMPLES = int(os.environ.get("OTTLA_LOG_MODEL_EXAMPLES", "40"))
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
PRODUCERS = [1, 2, 3]
ENTRIES = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"1", b"2" * 50])), min_size=1, max_size=4)


class CompactionModel(RuleBasedStateMachine):
    @initialize(map_slots=st.sampled_from([3, 5, 100]), segment_bytes=st.sampled_from([300, 1_000]))
    def start(self, map_slots: int, segment_bytes: int) -> None:
        self.log = CompactedLog(cleaner=CleanerConfig(dedupe_buffer_bytes=24 * map_slots, io_buffer_bytes=8))
        self.log.update(segment_bytes=segment_bytes)
        self.appended: dict[int, Record] = {}
        self.committed: set[int] = set()
        self.open: dict[int, list[int]] = {}

    def _append(self, entries: list[tuple[bytes, bytes | None]], codec: Compression, **options: int) -> list[int]:
        timestamp_ms = self.log.clock.now_ms
        first_offset = self.log.append(*entries, compression=codec, **options)
        for number, (key, value) in enumerate(entries):
            offset = first_offset + number
            self.appended[offset] = Record(offset, timestamp_ms, key, value)
        return list(range(first_offset, first_offset + len(entries)))

    @rule(entries=ENTRIES, codec=st.sampled_from(Compression))
    def append(self, entries: list[tuple[bytes, bytes | None]], codec: Compression) -> None:
        self.committed.update(self._append(entries, codec))

    @rule(entries=ENTRIES, codec=st.sampled_from(Compression), producer_id=st.sampled_from(PRODUCERS))
    def append_in_transaction(
        self, entries: list[tuple[bytes, bytes | None]], codec: Compression, producer_id: int
    ) -> None:
        offsets = self._append(entries, codec, producer_id=producer_id, is_transactional=True)
        self.open.setdefault(producer_id, []).extend(offsets)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), is_aborted=st.booleans())
    def end_transaction(self, data: st.DataObject, is_aborted: bool) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open)))
        self.log.end_transaction(producer_id, is_aborted=is_aborted)
        offsets = self.open.pop(producer_id)
        if not is_aborted:
            self.committed.update(offsets)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(for_ms=st.integers(0, 1_500))
    def wait(self, for_ms: int) -> None:
        self.log.clock.now_ms += for_ms

    @rule()
    def clean(self) -> None:
        self.log.clean()

    @rule(slices=st.integers(0, 60))
    def die_while_cleaning(self, slices: int) -> None:
        """Let the process die after some slices; with kill -9 nothing that was written is lost."""
        self.log.start_cleaning()
        for _ in range(slices):
            if not self.log.background._waiting:
                break
            self.log.background._waiting.popleft()()
        self.log.open()

    @rule(slices=st.integers(0, 30), entries=ENTRIES)
    def append_while_cleaning(self, slices: int, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.log.start_cleaning()
        for _ in range(slices):
            if self.log.background._waiting:
                self.log.background._waiting.popleft()()
        self.append(entries, Compression.NONE)
        self.log.clean()

    @invariant()
    def offsets_keep_their_records(self) -> None:
        found = self.log.records()

        assert [record.offset for record in found] == sorted({record.offset for record in found})
        for record in found:
            assert record == self.appended[record.offset]

    @invariant()
    def readers_find_the_last_committed_record_of_each_key(self) -> None:
        stable_offset = self.log.log.last_stable_offset
        seen = {
            record.key: record
            for record in self.log.records(is_committed=True)
            if record.offset < stable_offset and record.offset in self.committed
        }
        last = {
            record.key: record
            for offset, record in self.appended.items()
            if offset in self.committed and offset < stable_offset
        }
        # A tombstone may be gone; then nothing of its key is left.
        gone = {key for key in last if key not in seen}
        assert all(last[key].value is None for key in gone)
        assert {key: record for key, record in last.items() if key not in gone} == seen

    @invariant()
    def nothing_aborted_is_seen(self) -> None:
        open_offsets = {offset for offsets in self.open.values() for offset in offsets}
        for record in self.log.records(is_committed=True):
            assert record.offset in self.committed or record.offset in open_offsets


TestCompactionModel = CompactionModel.TestCase
TestCompactionModel.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
