"""Snapshots of the replicated state: ``<end offset>-<epoch>.checkpoint`` beside the log's segments."""

from typing import Generic, TypeVar

RecordT = TypeVar("RecordT")


class SnapshotReader(Generic[RecordT]):
    """One snapshot, batch by batch."""
