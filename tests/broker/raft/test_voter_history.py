"""Voters by offset of the log: from their record on, until the log is truncated, and as of a snapshot's end."""

from ottla.raft.control_batch import build_control_batch
from ottla.raft.voter_history import STATIC, VoterHistory
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import Endpoint, Uuid
from ottla.wire.messages.control_records import KRaftVersionRecord
from ottla.wire.records import RecordBatch, parse_batch


def voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(Voter(each, Uuid(bytes([each]) * 16), {"C": Endpoint("h", each)}) for each in node_ids)


def batch(offset: int, voter_set: VoterSet, *, with_version: bool = False) -> RecordBatch:
    messages = [KRaftVersionRecord(version=0, kraft_version=1)] if with_version else []
    data = build_control_batch([*messages, voter_set.to_message()], base_offset=offset, epoch=1, timestamp_ms=0)
    return parse_batch(data)


def history() -> VoterHistory:
    """Return a history with voter 1 from offset 1 on, and voters 1 and 2 from offset 10 on."""
    created = VoterHistory(voters(9))
    assert created.read([batch(0, voters(1), with_version=True), batch(10, voters(1, 2))])
    return created


def test_static_voters_apply_until_the_log_has_voters() -> None:
    created = VoterHistory(voters(9))
    assert (created.voters, created.kraft_version, created.is_in_log) == (voters(9), 0, False)

    created = history()

    assert (created.voters, created.kraft_version, created.voters_offset) == (voters(1, 2), 1, 10)


def test_snapshot_has_the_voters_at_its_end_offset() -> None:
    created = history()

    assert created.voters_below(11) == voters(1, 2)
    assert created.voters_below(10) == voters(1)
    assert created.voters_below(1) == voters(9)
    assert (created.kraft_version_below(1), created.kraft_version_below(0)) == (1, 0)


def test_truncation_reverts_the_voters_of_truncated_records() -> None:
    created = history()

    assert not created.truncate(11)
    assert created.truncate(10)
    assert created.voters == voters(1)
    assert created.truncate(0)
    assert (created.voters, created.kraft_version, created.voters_offset) == (voters(9), 0, STATIC)


def test_loaded_snapshot_replaces_the_voter_history() -> None:
    created = history()

    created.load_snapshot(100, 1, voters(3))

    assert (created.voters, created.kraft_version, created.is_in_log) == (voters(3), 1, True)
    assert created.voters_below(101) == voters(3)


def test_voters_of_the_bootstrap_snapshot_are_not_in_the_log_yet() -> None:
    created = VoterHistory(None)

    created.load_snapshot(0, 1, voters(1))

    assert (created.voters, created.kraft_version, created.is_in_log) == (voters(1), 1, False)


def test_snapshot_without_voters_keeps_the_static_voters() -> None:
    created = history()

    created.load_snapshot(100, 0, None)

    assert (created.voters, created.kraft_version) == (voters(9), 0)
