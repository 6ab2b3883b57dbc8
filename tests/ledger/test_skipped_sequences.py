"""Records that a ledger attributes to the client's own repetition, and no others."""

from ledger_client import SkippedSequences


def test_only_unacknowledged_numbers_at_a_skip_are_in_doubt() -> None:
    unacknowledged = {7, 8}
    skipped = SkippedSequences(lambda: set(unacknowledged))
    skipped.logger.debug("DRAIN flights [1] beginning partition drain: drain before retrying")
    assert skipped.in_doubt == set()
    skipped.logger.debug("ERRSEQ ProduceRequest for flights [1] failed due to skipped sequence numbers: retrying")
    unacknowledged.add(9)
    assert skipped.in_doubt == {7, 8}
