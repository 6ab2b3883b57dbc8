"""What a ledger takes for the client's own repetition, and nothing else."""

from ledger_client import SkippedSequences


def test_only_numbers_without_an_answer_at_a_skip_are_in_doubt() -> None:
    unanswered = {7, 8}
    skipped = SkippedSequences(lambda: set(unanswered))
    skipped.logger.debug("DRAIN flights [1] beginning partition drain: drain before retrying")
    assert skipped.in_doubt == set()
    skipped.logger.debug("ERRSEQ ProduceRequest for flights [1] failed due to skipped sequence numbers: retrying")
    unanswered.add(9)
    assert skipped.in_doubt == {7, 8}
