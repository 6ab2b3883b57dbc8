"""`new_share_partition`: a share-partition with default settings, and helpers for it."""

from collections.abc import Callable, Mapping

from ottla.purgatory.steps import Steps, run_to_end
from ottla.share_partitions.acquisition import AcquiredRange, LogBatch
from ottla.share_partitions.settings import ShareGroupSettings, SharePartitionsConfig
from ottla.share_partitions.share_partition import AcknowledgementBatch, SharePartition
from ottla.share_state.persister import SharePartitionKey, StateResult
from recording_persister import RecordingPersister

KEY = SharePartitionKey("group", b"\x01" * 16, 0)
LOCK_MS = 30_000


def new_share_partition(
    persister: RecordingPersister,
    own: Mapping[str, str] | None = None,
    *,
    start_offset: int = 0,
    on_available: Callable[[SharePartitionKey], object] = lambda _: None,
    on_fenced: Callable[[SharePartition], object] = lambda _: None,
    run_later: Callable[[Steps[object]], object] = run_to_end,
    may_log: Callable[[], bool] = lambda: True,
    group_id: str = KEY.group_id,
) -> SharePartition:
    """Return one that reads its state."""
    config = SharePartitionsConfig(record_lock_duration_ms=LOCK_MS, delivery_count_limit_bounds=(2, 25))
    config.partition_max_record_locks_bounds = (1, 10_000)
    share_partition = SharePartition(
        KEY._replace(group_id=group_id),
        leader_epoch=3,
        persister=persister,
        settings=ShareGroupSettings(lambda: config, lambda _: own or {}),
        initial_offset=lambda _: start_offset,
        on_available=on_available,
        on_fenced=on_fenced,
        run_later=run_later,
        may_log=may_log,
    )
    share_partition.initialize()
    return share_partition


def acquire(
    share_partition: SharePartition,
    member_id: str,
    batches: list[tuple[int, int]],
    *,
    records_max: int = 500,
    batch_size: int = 500,
    is_record_limit: bool = False,
    now_ms: int = 0,
) -> list[AcquiredRange]:
    """Acquire of the log's ``batches`` what a read at the next fetch offset would find."""
    fetch_offset = share_partition.next_fetch_offset()
    return share_partition.acquire(
        member_id,
        [LogBatch(*each) for each in batches if each[1] >= fetch_offset],
        fetch_offset=fetch_offset,
        records_max=records_max,
        batch_size=batch_size,
        is_record_limit=is_record_limit,
        now_ms=now_ms,
    )


def acknowledge(
    share_partition: SharePartition, member_id: str, *batches: tuple[int, int, int | list[int]], now_ms: int = 0
) -> StateResult | None:
    """Acknowledge; return None while that waits for the write."""
    wanted = [
        AcknowledgementBatch(first, last, bytes([types] if isinstance(types, int) else types))
        for first, last, types in batches
    ]
    delayed = run_to_end(share_partition.acknowledge(member_id, wanted, now_ms=now_ms))
    return delayed.value if delayed.is_complete else None
