"""Batches of aborted transactions in a part of the log."""

from ottla.log.transaction_index import AbortedTransaction
from ottla.wire.records import AbortedTransactions, Record, build_batch, build_empty_batch, iterate_batches


def test_empty_control_batch_is_no_abort_marker() -> None:
    (marker,) = iterate_batches(
        build_batch([Record(0, 0, b"key", None)], producer_id=7, is_transactional=True, is_control=True)
    )
    data = build_batch([Record(1, 0, None, b"v")], base_offset=1, producer_id=7, is_transactional=True)
    batches = list(iterate_batches(build_empty_batch(marker) + data))
    aborted = AbortedTransactions([AbortedTransaction(7, 0, 2, 3)])

    assert batches[0].is_control
    assert [aborted.includes(batch) for batch in batches] == [False, True]
