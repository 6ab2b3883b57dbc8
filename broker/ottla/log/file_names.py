"""Names of files and directories of a log, as every Kafka tool expects them.

A log's directory is ``<topic>-<partition>``. Its files are named by the base offset of the segment, as 20 digits:

================================== ======================================================
``00000000000000000042.log``       record batches
``00000000000000000042.index``     offset to position
``00000000000000000042.timeindex`` timestamp to offset
``00000000000000000042.txnindex``  aborted transactions (only where there are any)
``00000000000000000042.snapshot``  producer state just before that offset
================================== ======================================================

Source: LogFileUtils and UnifiedLog of Kafka.
"""

import re

from ottla.types import Offset, TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
"""A deleted file, until file.delete.delay.ms has passed."""
CLEANED_SUFFIX = ".cleaned"
"""A file that compaction was writing when the node stopped."""
SWAP_SUFFIX = ".swap"
"""A file that compaction had finished and was about to put in place."""

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"
"""A copy of a log that is being moved to another log directory."""

_DIRECTORY = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)$")
_MARKED_DIRECTORY = re.compile(r"^.+-\d+\.[0-9a-zA-Z_-]+-(?P<mark>delete|future|stray)$")
_FUTURE_DIRECTORY = re.compile(r"^(?P<log>.+-\d+)\.[0-9a-zA-Z_-]+-future$")
_BASE_OFFSET_DIGITS = 20
DIRECTORY_NAME_LENGTH_MAX = 255


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_base_offset(name: str, suffix: str) -> Offset | None:
    """Return the offset in a file name with ``suffix``; None when the name is of another kind."""
    digits = name[: -len(suffix)]
    if not name.endswith(suffix) or len(digits) != _BASE_OFFSET_DIGITS or not digits.isdigit():
        return None
    return int(digits)


def parse_log_directory(name: str) -> TopicPartition | None:
    """Return the partition whose log is in a directory of this name; None when it is no log's."""
    match = _DIRECTORY.match(name)
    if match is None:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def directory_mark(name: str) -> str | None:
    """Return "delete", "future" or "stray" for a directory with such a suffix, else None."""
    match = _MARKED_DIRECTORY.match(name)
    return None if match is None else match["mark"]


def parse_future_directory(name: str) -> TopicPartition | None:
    """Return the partition whose log is being moved to a directory of this name; None when it is no such directory."""
    match = _FUTURE_DIRECTORY.match(name)
    return None if match is None else parse_log_directory(match["log"])


def marked_directory_name(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """Return ``<topic>-<partition>.<unique>-delete`` (or another suffix), with the topic shortened so that it fits."""
    tail = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: DIRECTORY_NAME_LENGTH_MAX - len(tail)] + tail
