"""The start offset of each leader epoch in a log, from which followers and consumers find a divergence.

Entries ascend in both numbers. The file, ``leader-epoch-checkpoint``, is in `checkpoint`'s format. It is replaced
without waiting for a sync: recovery compares it with the batches (`epoch_check`), and the next leader assigns an epoch
that has none again.

Source: LeaderEpochFileCache of Kafka; KIP-101, KIP-279, KIP-320.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ottla.log.checkpoint import EpochEntry, MalformedFileError, format_epochs, parse_epochs, read_text, write_text
from ottla.ports import Disk
from ottla.types import LeaderEpoch, Offset, OffsetAndEpoch

UNDEFINED_EPOCH = -1


class FoundEpoch(NamedTuple):
    """An epoch in the batches of a log: its first batch, and the end of the batch before that one.

    The epoch started between both offsets: compaction may have removed batches there.
    """

    epoch: LeaderEpoch
    start_offset: Offset
    earliest_offset: Offset


class LeaderEpochCache:
    """See the module. Every change raises StorageError on an I/O error.

    Attributes:
        latest_epoch: the newest known epoch; -1 when none is.
        change_count: how often the file was replaced, for the owner of its sync; one that was loaded unsynced counts.
    """

    __slots__ = ("_disk", "_entries", "change_count", "latest_epoch", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._entries: tuple[EpochEntry, ...] = ()
        self.latest_epoch: LeaderEpoch = UNDEFINED_EPOCH
        self.change_count = 0

    def load(self, *, is_synced: bool = True) -> None:
        """Read the file; a missing file has no entries.

        Args:
            is_synced: whether it is certainly on stable storage, not in the page cache only, as after a killed process.

        Raises:
            StorageError: an I/O error.
            MalformedFileError: a line is malformed, the last one of an unsynced file is cut off, or the entries do not
                ascend.
        """
        text = read_text(self._disk, self.path)
        if text is not None and not is_synced:
            self.change_count += 1
            if text and not text.endswith("\n"):
                # A power cut has torn the file, perhaps within a number that is still one.
                raise MalformedFileError(f"{self.path}: the last line is cut off")
        entries = tuple(parse_epochs(text, self.path)) if text is not None else ()
        for earlier, later in pairwise(entries):
            if later.epoch <= earlier.epoch or later.start_offset < earlier.start_offset:
                raise MalformedFileError(f"{self.path}: epoch {later.epoch} does not come after epoch {earlier.epoch}")
        self._set(entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Record that ``epoch`` starts at ``start_offset``; return whether that changed the entries.

        Entries that are not below the new one in both numbers are dropped: their records have been truncated.
        """
        assert epoch >= 0, f"leader epoch {epoch} is below 0"
        assert start_offset >= 0, f"start offset {start_offset} is below 0"
        entries = _assigned(self._entries, EpochEntry(epoch, start_offset))
        if entries == self._entries:
            return False
        self._replace(entries)
        return True

    def restore(self, start_offset: Offset, found: Iterable[FoundEpoch], *, end_offset: Offset | None = None) -> None:
        """Replace the entries from ``start_offset`` on, up to ``end_offset``, with what recovery read in the batches.

        An entry stays where compaction has left no batch that contradicts it. With the first batch that is left
        instead, followers would keep divergent records below it.
        """
        entries = tuple(entry for entry in self._entries if entry.start_offset < start_offset)
        known = [entry for entry in self._entries if entry.start_offset >= start_offset]
        for each in found:
            for entry in known:
                is_between = each.earliest_offset <= entry.start_offset <= each.start_offset
                if is_between and _latest(entries) < entry.epoch <= each.epoch:
                    entries = _assigned(entries, entry)
            entries = _assigned(entries, EpochEntry(each.epoch, each.start_offset))
        if end_offset is not None:
            later = (entry for entry in known if entry.start_offset >= end_offset and entry.epoch > _latest(entries))
            entries = (*entries, *later)
        if entries != self._entries:
            self._replace(entries)

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> OffsetAndEpoch | None:
        """Return the largest known epoch at or below ``epoch`` and where it ends.

        None when it is unknown: ``epoch`` is -1, or above all known epochs. Below all known epochs, the result is
        ``epoch`` itself, ending where the first known one starts.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return None
        if epoch == entries[-1].epoch:
            return OffsetAndEpoch(log_end_offset, epoch)
        slot = bisect_right(entries, epoch, key=_epoch)
        end_offset = entries[slot].start_offset
        return OffsetAndEpoch(end_offset, entries[slot - 1].epoch if slot else epoch)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that ``offset`` belongs to; -1 below the first known one."""
        slot = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[slot - 1].epoch if slot else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Drop the epochs that start at ``end_offset`` or above."""
        count = bisect_left(self._entries, end_offset, key=_start_offset)
        if count < len(self._entries):
            self._replace(self._entries[:count])

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Drop the epochs that end at or below ``start_offset``; the one that it falls into then starts there."""
        count = bisect_right(self._entries, start_offset, key=_start_offset)
        if count == 0 or (count == 1 and self._entries[0].start_offset == start_offset):
            return
        first = EpochEntry(self._entries[count - 1].epoch, start_offset)
        self._replace((first, *self._entries[count:]))

    def replace_entries(self, entries: tuple[EpochEntry, ...]) -> bool:
        """Use the entries of the log that this one is a copy of; return whether they differed."""
        if entries == self._entries:
            return False
        self._replace(entries)
        return True

    def clear(self) -> None:
        """Drop all epochs."""
        if self._entries:
            self._replace(())

    def rewrite(self) -> None:
        """Replace the file, which is corrupt, with the entries in memory."""
        self._replace(self._entries)

    def _replace(self, entries: tuple[EpochEntry, ...]) -> None:
        # The file first: after a write that failed for lack of a descriptor the next attempt repeats it.
        write_text(self._disk, self.path, format_epochs(entries), sync=False)
        self._set(entries)
        self.change_count += 1

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = _latest(entries)


def _assigned(entries: tuple[EpochEntry, ...], new: EpochEntry) -> tuple[EpochEntry, ...]:
    """Return ``entries`` with ``new`` at their end, without those that are not below it in both numbers."""
    if entries and new.epoch == entries[-1].epoch and new.start_offset >= entries[-1].start_offset:
        return entries
    kept = (entry for entry in entries if entry.epoch < new.epoch and entry.start_offset < new.start_offset)
    return (*kept, new)


def _latest(entries: tuple[EpochEntry, ...]) -> LeaderEpoch:
    return entries[-1].epoch if entries else UNDEFINED_EPOCH


def _epoch(entry: EpochEntry) -> LeaderEpoch:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> Offset:
    return entry.start_offset
