"""Ranges of aborted transactions in a slice of the log."""

from ottla.log.transaction_index import AbortedTransaction
from ottla.share_partitions.aborted_batches import aborted_ranges
from ottla.wire.records import Record, build_batch, build_empty_batch, iterate_batches


def test_empty_control_batch_is_no_abort_marker() -> None:
    (marker,) = iterate_batches(
        build_batch([Record(0, 0, b"key", None)], producer_id=7, is_transactional=True, is_control=True)
    )
    data = build_batch([Record(1, 0, None, b"v")], base_offset=1, producer_id=7, is_transactional=True)
    batches = list(iterate_batches(build_empty_batch(marker) + data))

    assert batches[0].is_control
    assert aborted_ranges(batches, [AbortedTransaction(7, 0, 2, 3)]) == [(1, 1)]
