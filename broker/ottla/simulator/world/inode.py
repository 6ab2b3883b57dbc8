"""`Inode`: the bytes of one simulated file, and what of them survives a power cut."""

from dataclasses import dataclass, field

from ottla.ports import Random
from ottla.wire.records import LOG_OVERHEAD_BYTES, MAGIC, MAGIC_POSITION

_FLIP_ONE_IN = 3
"""Of the files that had unsynced writes when the power went, and kept some."""
_LENGTH_POSITION, _LEADER_EPOCH_POSITION = 8, 12
"""In a record batch; before them is the base offset, behind them the magic byte."""


@dataclass(slots=True)
class Change:
    """One unsynced change of a file: bytes at a position, or (``data`` None) a cut at it."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray, size_bytes: int | None = None) -> None:
        """Apply the change, or only its first ``size_bytes`` bytes."""
        if self.data is None:
            _resize(content, self.position)
            return
        data = self.data if size_bytes is None else self.data[:size_bytes]
        if data and self.position > len(content):
            _resize(content, self.position)
        content[self.position : self.position + len(data)] = data


def _resize(content: bytearray, size_bytes: int) -> None:
    if size_bytes <= len(content):
        del content[size_bytes:]
    else:
        content.extend(bytes(size_bytes - len(content)))


def _flip_bit(content: bytearray, change: Change, random: Random) -> None:
    """Flip one bit of the data that ``change`` wrote, if any is left and a reader can notice it."""
    data = change.data or b""
    end = min(len(content), change.position + len(data))
    if end > change.position:
        at = random.randrange(end - change.position)
        bit = 1 << random.randrange(8)
        if not _is_unnoticed(data, at):
            content[change.position + at] ^= bit


def _is_unnoticed(data: bytes, at: int) -> bool:
    """Return whether no reader can notice a change of the byte at ``at``: no checksum covers it.

    In the last batch of a log, neither JVM Kafka nor Ottla can tell a flipped leader epoch from a later one, nor, where
    compaction leaves gaps, a flipped base offset from a higher one.
    """
    start = 0
    while start + MAGIC_POSITION < len(data) and data[start + MAGIC_POSITION] == MAGIC:
        if at < start + MAGIC_POSITION:
            is_length = start + _LENGTH_POSITION <= at < start + _LEADER_EPOCH_POSITION
            return at >= start and not is_length
        start += LOG_OVERHEAD_BYTES + int.from_bytes(data[start + 8 : start + LOG_OVERHEAD_BYTES])
    return False


@dataclass(slots=True, eq=False)
class Inode:
    """A file's bytes, now and on the platter."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.changes.append(change)

    def sync(self) -> None:
        if self.changes:
            self.durable = bytes(self.content)
            self.changes.clear()

    def crash(self, random: Random | None, *, flips_bits: bool) -> None:
        content = bytearray(self.durable)
        if random is not None and self.changes:
            kept = random.randrange(len(self.changes) + 1)
            for change in self.changes[:kept]:
                change.apply(content)
            if kept < len(self.changes) and (torn := self.changes[kept]).data:
                torn.apply(content, random.randrange(len(torn.data) + 1))
            if flips_bits and kept and random.randrange(_FLIP_ONE_IN) == 0:
                _flip_bit(content, self.changes[random.randrange(kept)], random)
        self.content = content
        self.durable = bytes(content)
        self.changes.clear()
