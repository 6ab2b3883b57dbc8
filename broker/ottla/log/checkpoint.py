"""Small text files that are replaced as a whole: offset checkpoints, epoch checkpoints, partition.metadata.

A checkpoint's lines:

==== =====================================================================================
line content
==== =====================================================================================
1    version: ``0``
2    number of entries
3..  one entry each: ``topic partition offset``, or ``epoch start_offset``, in decimal
==== =====================================================================================

There is no checksum: a temporary file is written, synced and renamed, so a reader finds the old file or the new one.
An empty file has no entries: Kafka creates a checkpoint empty, and leaves it so until the first entry is written.
Source: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile and PartitionMetadataFile of Kafka.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.errors import KafkaError, StorageError, disk_error
from ottla.ports import Disk
from ottla.types import LeaderEpoch, Offset, TopicPartition, Uuid, format_uuid, parse_uuid

logger = logging.getLogger(__name__)

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

CHECKPOINT_VERSION = 0
TEMPORARY_SUFFIX = ".tmp"
_READ_SIZE_BYTES = 1 << 20


class MalformedFileError(StorageError):
    """The contents of a file are malformed; the disk itself reported no error."""


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


def read_text(disk: Disk, path: str) -> str | None:
    """Return the file's text; None when there is no such file.

    Raises:
        StorageError: an I/O error.
        ShortageError: the process is out of file descriptors.
        MalformedFileError: the bytes are not UTF-8.
    """
    try:
        file = disk.open(path, read_only=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_error(f"cannot open {path}", error) from error
    try:
        pieces = []
        position = 0
        while piece := file.pread(_READ_SIZE_BYTES, position):
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces).decode("utf-8")
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"{path} is not UTF-8 text: {error}") from error
    finally:
        file.close()


def write_text(disk: Disk, path: str, text: str, *, sync: bool = True) -> None:
    """Replace the file's text in one step.

    Without ``sync`` the kernel decides when it reaches stable storage: for state that can be rebuilt.

    Raises:
        StorageError: an I/O error.
    """
    temporary = path + TEMPORARY_SUFFIX
    try:
        file = disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwritev([text.encode()], 0)
            if sync:
                file.sync()
        finally:
            file.close()
        disk.rename(temporary, path)
        if sync:
            disk.sync_directory(path.rpartition("/")[0] or ".")
    except OSError as error:
        raise disk_error(f"cannot write {path}", error) from error


def write_text_later(
    disk: Disk,
    path: str,
    text: str,
    done: Callable[[KafkaError | None], None],
    *,
    is_obsolete: Callable[[], bool] = lambda: False,
) -> None:
    """Replace the file's text like `write_text`, with the sync off the loop; then call ``done`` with the error or None.

    One call at a time per path: the temporary file has one name. If `write_text` has replaced the file meanwhile,
    ``is_obsolete`` must return True: the newer text stays.
    """
    temporary = path + TEMPORARY_SUFFIX
    try:
        file = disk.open(temporary, create=True)
        file.truncate(0)
        file.pwritev([text.encode()], 0)
    except OSError as error:
        done(disk_error(f"cannot write {path}", error))
        return

    def synced(error: OSError | None) -> None:
        try:
            file.close()
            if error is not None:
                raise error
            if not is_obsolete():
                disk.rename(temporary, path)
        except OSError as caught:
            done(disk_error(f"cannot write {path}", caught))
        else:
            done(None)

    disk.sync_later([file], synced)


def format_checkpoint(lines: Iterable[str]) -> str:
    entries = list(lines)
    return "\n".join([str(CHECKPOINT_VERSION), str(len(entries)), *entries, ""])


def parse_checkpoint(text: str, path: str) -> list[list[str]]:
    """Return each entry's fields; none for a file that is empty or ends behind its version, as Kafka reads these.

    Raises:
        MalformedFileError: another version, or another number of entries than the file says.
    """
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0] != str(CHECKPOINT_VERSION):
        raise MalformedFileError(
            f"{path}: a checkpoint starts with a version, this one with {lines[0]!r}; only {CHECKPOINT_VERSION} is read"
        )
    if len(lines) == 1:
        return []
    if not lines[1].isdigit():
        raise MalformedFileError(f"{path}: line 2 is the number of entries, this one has {lines[1]!r}")
    entries = [line.split() for line in lines[2:] if line]
    if len(entries) != int(lines[1]):
        raise MalformedFileError(f"{path}: line 2 announces {lines[1]} entries, {len(entries)} follow")
    return entries


def format_offsets(offsets: Mapping[TopicPartition, Offset]) -> str:
    return format_checkpoint(
        f"{partition.topic} {partition.partition} {offset}" for partition, offset in sorted(offsets.items())
    )


def parse_offsets(text: str, path: str) -> dict[TopicPartition, Offset]:
    """Read ``topic partition offset`` lines.

    Raises:
        MalformedFileError: a line is malformed.
    """
    offsets = {}
    for fields in parse_checkpoint(text, path):
        try:
            topic, partition, offset = fields
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise MalformedFileError(f"{path}: malformed line {' '.join(fields)!r}: {error}") from error
    return offsets


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Return an offset checkpoint's entries; none when there is no file."""
    text = read_text(disk, path)
    return {} if text is None else parse_offsets(text, path)


def format_epochs(entries: Iterable[EpochEntry]) -> str:
    return format_checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def parse_epochs(text: str, path: str) -> list[EpochEntry]:
    """Read ``epoch start_offset`` lines.

    Raises:
        MalformedFileError: a line is malformed.
    """
    entries = []
    for fields in parse_checkpoint(text, path):
        try:
            epoch, start_offset = fields
            entries.append(EpochEntry(int(epoch), int(start_offset)))
        except ValueError as error:
            raise MalformedFileError(f"{path}: malformed line {' '.join(fields)!r}: {error}") from error
    return entries


def read_partition_metadata(disk: Disk, directory: str) -> Uuid | None:
    """Return the topic id of the log in ``directory``; None when it has not been written.

    A torn or corrupt file, which a power cut may leave, counts as not written: the metadata log has the id, and the
    file is rewritten when the partition is assigned.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        text = read_text(disk, path)
        return None if text is None else parse_partition_metadata(text, path)
    except MalformedFileError as error:
        logger.warning("%s; it will be rewritten from the metadata", error)
        return None


def write_partition_metadata(disk: Disk, directory: str, topic_id: Uuid) -> None:
    """Write a log's topic id without a sync: the metadata log has it too, and the log's first sync covers the file."""
    write_text(disk, f"{directory}/{PARTITION_METADATA}", format_partition_metadata(topic_id), sync=False)


def format_partition_metadata(topic_id: Uuid) -> str:
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}"


def parse_partition_metadata(text: str, path: str) -> Uuid | None:
    """Return the topic id; None for an empty file, which a power cut may leave.

    Raises:
        MalformedFileError: anything else that is malformed.
    """
    if not text:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise MalformedFileError(f"{path}: expected 'version: 0' and 'topic_id: ...', found {text!r}")
    try:
        return parse_uuid(fields["topic_id"])
    except ValueError as error:
        raise MalformedFileError(f"{path}: {error}") from error
