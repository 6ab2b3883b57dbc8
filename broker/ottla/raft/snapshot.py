"""Snapshots of the replicated state: ``<end offset>-<epoch>.checkpoint`` next to the log's segments.

A snapshot holds the state of the log below its end offset, as record batches whose offsets count from 0:

===================== ===========================================================================
batches               content
===================== ===========================================================================
first                 control: snapshot header; with kraft.version 1 also that version and the voters
any number            the records
last                  control: snapshot footer; without it the snapshot is incomplete
===================== ===========================================================================

It is written as ``….checkpoint.part``, synced, and renamed, so that it is whole or not there.

Source: KIP-630; RecordsSnapshotWriter, RecordsSnapshotReader and Snapshots of Apache Kafka.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from ottla.errors import CorruptRecordError, ProtocolError, StorageError
from ottla.ports import Clock, Disk, File
from ottla.raft.control_batch import build_control_batch, read_control_batch
from ottla.raft.record_batch import read_batch
from ottla.raft.records import Batch, RecordSerde
from ottla.raft.voter_set import VoterSet
from ottla.types import LeaderEpoch, Offset, OffsetAndEpoch
from ottla.wire.codec import Message
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.records import Record, build_batch, iterate_batches, parse_batch

RecordT = TypeVar("RecordT")
ResultT = TypeVar("ResultT")

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
_FIRST_BATCH_SIZE_BYTES_MAX: Final = 64 * 1024
_NAME: Final = re.compile(r"^(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint$")


def snapshot_file_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def parse_snapshot_file_name(name: str) -> OffsetAndEpoch | None:
    """Return the id in a snapshot's file name; None when the file is something else."""
    match = _NAME.match(name)
    return None if match is None else OffsetAndEpoch(int(match["offset"]), int(match["epoch"]))


def read_last_contained_log_time_ms(disk: Disk, path: str) -> int:
    """Return the append time of the newest record that the snapshot at ``path`` includes, from its first batch.

    Raises:
        StorageError: the disk failed, or the file does not start with a snapshot header.
    """
    try:
        file = disk.open(path, read_only=True)
        try:
            data = file.pread(_FIRST_BATCH_SIZE_BYTES_MAX, 0)
        finally:
            file.close()
        for _, message in read_control_batch(parse_batch(data)):
            if isinstance(message, SnapshotHeaderRecord):
                return message.last_contained_log_timestamp
    except (OSError, CorruptRecordError, ProtocolError) as error:
        raise StorageError(f"cannot read snapshot {path}: {error}") from error
    raise StorageError(f"snapshot {path} has no header")


class SnapshotWriter(Generic[RecordT]):
    """A snapshot that is being written. End it with `freeze`, `freeze_later` or `abandon`.

    Every method may raise StorageError; the part file is then useless.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        directory: str,
        snapshot_id: OffsetAndEpoch,
        serde: RecordSerde[RecordT],
        last_contained_log_time_ms: int,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
        file_name: str | None = None,
    ) -> None:
        self.snapshot_id = snapshot_id
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._serde = serde
        self._path = f"{directory}/{file_name or snapshot_file_name(snapshot_id)}"
        self._part_path = self._path.removesuffix(SUFFIX) + PART_SUFFIX
        self._position = 0
        self._next_offset: Offset = 0
        self._file: File = self._try(lambda: disk.open(self._part_path, create=True))
        self._try(lambda: self._file.truncate(0))
        header: list[Message] = [
            SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_time_ms)
        ]
        if kraft_version > 0:
            header.append(KRaftVersionRecord(version=0, kraft_version=kraft_version))
            if voters is not None:
                header.append(voters.to_message())
        self._append_control(header)

    @property
    def size_bytes(self) -> int:
        return self._position

    def append(self, records: Sequence[RecordT]) -> None:
        """Add ``records`` as one batch; together at most 8 MiB when encoded."""
        if not records:
            return
        timestamp_ms = self._clock.wall_ms()
        values = [
            Record(self._next_offset + index, timestamp_ms, None, self._serde.encode(record))
            for index, record in enumerate(records)
        ]
        self._write(
            build_batch(values, base_offset=self._next_offset, leader_epoch=self.snapshot_id.epoch), len(records)
        )

    def freeze(self) -> None:
        """Complete the snapshot and make it durable before returning."""
        self._append_control([SnapshotFooterRecord(version=0)])
        self._try(self._file.sync)
        self._publish()

    def freeze_later(self, done: Callable[[StorageError | None], None]) -> None:
        """Complete the snapshot; call ``done`` when it is durable and published, or with the error."""
        self._append_control([SnapshotFooterRecord(version=0)])

        def synced(error: OSError | None) -> None:
            failure = None if error is None else self._failure(error)
            if failure is None:
                try:
                    self._publish()
                except StorageError as publish_failure:
                    failure = publish_failure
            done(failure)

        self._disk.sync_later([self._file], synced)

    def abandon(self) -> None:
        """Remove the part file."""
        self._try(self._file.close)
        self._try(lambda: self._disk.remove(self._part_path))

    def _publish(self) -> None:
        self._try(self._file.close)
        self._try(lambda: self._disk.rename(self._part_path, self._path))
        self._try(lambda: self._disk.sync_directory(self._directory))

    def _append_control(self, messages: Sequence[Message]) -> None:
        batch = build_control_batch(
            messages,
            base_offset=self._next_offset,
            epoch=self.snapshot_id.epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        self._write(batch, len(messages))

    def _write(self, batch: bytes, record_count: int) -> None:
        self._position += self._try(lambda: self._file.pwritev([batch], self._position))
        self._next_offset += record_count

    def _try(self, action: Callable[[], ResultT]) -> ResultT:
        try:
            return action()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write snapshot {self._part_path}: {error}")


class SnapshotReader(Generic[RecordT]):
    """One whole snapshot, read and checked.

    Attributes:
        snapshot_id: end offset and epoch.
        last_contained_log_time_ms: append time of the last record that it includes.
        kraft_version: 0 when it names none.
        voters: None when it names none.
    """

    def __init__(self, data: bytes, path: str, snapshot_id: OffsetAndEpoch, serde: RecordSerde[RecordT]) -> None:
        """Read the control records of ``data``, the file at ``path``.

        Raises:
            StorageError: the file is corrupt or incomplete.
        """
        self.snapshot_id = snapshot_id
        self.last_contained_log_time_ms = 0
        self.kraft_version = 0
        self.voters: VoterSet | None = None
        self._data = data
        self._path = path
        self._serde = serde
        self._read_control()

    @classmethod
    def open(
        cls, disk: Disk, path: str, snapshot_id: OffsetAndEpoch, serde: RecordSerde[RecordT]
    ) -> "SnapshotReader[RecordT]":
        """Read the file at ``path``.

        Raises:
            StorageError: the disk failed, or the file is corrupt or incomplete.
        """
        try:
            file = disk.open(path, read_only=True)
            try:
                data = file.pread(file.size_bytes(), 0)
            finally:
                file.close()
        except OSError as error:
            raise StorageError(f"cannot read snapshot {path}: {error}") from error
        return cls(data, path, snapshot_id, serde)

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    @property
    def last_contained_offset(self) -> Offset:
        return self.snapshot_id.offset - 1

    @property
    def epoch(self) -> LeaderEpoch:
        return self.snapshot_id.epoch

    def batches(self) -> Iterator[Batch[RecordT]]:
        """Yield the batches of records, in order.

        Raises:
            StorageError: a record is corrupt, or from a newer release.
        """
        try:
            for batch in iterate_batches(self._data, strict=True):
                if not batch.is_control:
                    yield read_batch(batch, self._serde)
        except (CorruptRecordError, ProtocolError) as error:
            raise StorageError(f"snapshot {self._path} cannot be read: {error}") from error

    def _read_control(self) -> None:
        finished = False
        try:
            for batch in iterate_batches(self._data, strict=True):
                batch.check_crc()
                if batch.is_control:
                    for _, message in read_control_batch(batch):
                        finished = self._keep_control(message) or finished
        except (CorruptRecordError, ProtocolError) as error:
            raise StorageError(f"snapshot {self._path} is corrupt: {error}") from error
        if not finished:
            raise StorageError(f"snapshot {self._path} has no footer: it is incomplete")

    def _keep_control(self, message: Message) -> bool:
        """Keep the contents of a control record; return whether it is the footer."""
        if isinstance(message, SnapshotHeaderRecord):
            self.last_contained_log_time_ms = message.last_contained_log_timestamp
        elif isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = VoterSet.from_message(message)
        return isinstance(message, SnapshotFooterRecord)
