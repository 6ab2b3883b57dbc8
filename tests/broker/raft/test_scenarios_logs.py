"""Known log and snapshot scenarios of Raft, with KRaft: diverged logs become identical to the leader's.

Logs are written as the epochs of their records, one batch a record.
"""

from collections.abc import Sequence

import pytest

from ottla.raft.config import RaftConfig
from ottla.raft.leader import LeaderState
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state_file import ElectionState, QuorumStateFile
from ottla.raft.records import ReplicaKey
from ottla.raft.snapshot import SnapshotWriter
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.runs.quorum.invariants import InvariantViolation
from ottla.simulator.runs.quorum.replica import DIRECTORY, LOG_DIRECTORY, BytesSerde, SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.types import ZERO_UUID, OffsetAndEpoch
from ottla.wire.records import Record, build_batch

LEADER, OTHER, FOLLOWER = 1, 2, 3
STATE = b"everything so far"


def write_log(replica: SimulatedReplica, epochs: Sequence[int], *, newest_epoch: int) -> None:
    """Write a log to the disk of a stopped node, after the end of its snapshot."""
    quorum = replica.quorum

    def fail(error: Exception) -> None:
        raise error

    log = MetadataLog(
        disk=replica.disk,
        clock=quorum.clock,
        metadata_log_directory=DIRECTORY,
        config=quorum.config,
        on_storage_error=fail,
    )
    for epoch in epochs:
        offset = log.end_offset
        record = Record(offset, 0, None, b"%d of epoch %d" % (offset, epoch))
        log.append(build_batch([record], base_offset=offset, leader_epoch=epoch), epoch)
    log.close()
    file = QuorumStateFile(replica.disk, LOG_DIRECTORY)
    file.write(ElectionState(newest_epoch), kraft_version=0, static_voters=list(quorum.replicas))


def write_snapshot(replica: SimulatedReplica, snapshot_id: OffsetAndEpoch) -> None:
    """Write a snapshot to the disk of a stopped node, next to its log if it has one."""
    replica.disk.make_directory(LOG_DIRECTORY)
    writer = SnapshotWriter(
        disk=replica.disk,
        clock=replica.quorum.clock,
        directory=LOG_DIRECTORY,
        snapshot_id=snapshot_id,
        serde=BytesSerde(),
        last_contained_log_time_ms=0,
    )
    writer.append([STATE])
    writer.freeze()


def log_of(replica: SimulatedReplica, start_offset: int = 0) -> bytes:
    file = replica.disk.open(f"{LOG_DIRECTORY}/{start_offset:020d}.log", read_only=True)
    return file.pread(1 << 20, 0)


def three_static(seed: int = 1) -> tuple[SimulatedQuorum, SimulatedReplica, SimulatedReplica, SimulatedReplica]:
    quorum = SimulatedQuorum(seed, voters=3, is_dynamic=False)
    return quorum, quorum.replicas[LEADER], quorum.replicas[OTHER], quorum.replicas[FOLLOWER]


def have_the_same(*replicas: SimulatedReplica) -> bool:
    ends = {each.client.log_end_offset for each in replicas}
    return len(ends) == 1 and all(each.next_offset in ends for each in replicas)


# --- figure 7 of the Raft paper


@pytest.mark.parametrize(
    "epochs",
    [
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6], id="a-one-is-missing"),
        pytest.param([1, 1, 1, 4], id="b-six-are-missing"),
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6], id="c-one-more-of-the-last-epoch"),
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7], id="d-two-of-an-unknown-epoch"),
        pytest.param([1, 1, 1, 4, 4, 4, 4], id="e-an-epoch-that-went-on"),
        pytest.param([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], id="f-two-unknown-epochs"),
    ],
)
@pytest.mark.parametrize("power_cut", [False, True], ids=["", "power-cut"])
def test_diverged_log_becomes_identical_to_the_leader_s(epochs: list[int], power_cut: bool) -> None:
    quorum, leader, other, follower = three_static()
    write_log(leader, [1, 1, 1, 4, 4, 5, 5, 6, 6, 6], newest_epoch=7)
    write_log(other, [], newest_epoch=7)
    write_log(follower, epochs, newest_epoch=7)
    quorum.start_all([LEADER, OTHER])
    quorum.run_until(quorum.has_working_leader)
    assert quorum.leader() is leader

    follower.start()
    if power_cut:
        quorum.run(quorum.random.randrange(30))
        quorum.kill(FOLLOWER, power_cut=True)
        follower.start()
    quorum.append()
    quorum.run_until(lambda: have_the_same(leader, other, follower), within_ms=5_000)

    assert log_of(follower) == log_of(leader)
    assert quorum.leader() is leader


def test_figure_7_elects_no_replica_with_a_log_that_is_behind() -> None:
    quorum, leader, other, follower = three_static()
    write_log(leader, [1, 1, 1, 4, 4, 5, 5, 6, 6, 6], newest_epoch=7)
    write_log(other, [1, 1, 1, 4, 4, 4, 4], newest_epoch=7)
    write_log(follower, [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], newest_epoch=7)

    quorum.start_all()

    quorum.run_until(quorum.has_working_leader)
    assert quorum.leader() is leader
    quorum.run_until(lambda: have_the_same(leader, other, follower), within_ms=5_000)


# --- figure 8 of the Raft paper


def test_records_of_earlier_epochs_are_not_committed_by_counting() -> None:
    static = VoterSet.of(Voter(number, ZERO_UUID, {}) for number in range(1, 6))
    state = LeaderState(4, ReplicaKey(1, ZERO_UUID), static, (1, 2, 3), epoch_start_offset=2)
    state.on_synced(3)

    def fetch(node_id: int, offset: int) -> bool:
        return state.on_fetch(ReplicaKey(node_id, ZERO_UUID), offset, 3, 0)

    # Three of five have the record of epoch 2 at offset 1, and yet a leader of epoch 3 may still replace it.
    assert not fetch(2, 2)
    assert not fetch(3, 2)
    assert state.high_watermark is None
    # With a record of its own epoch on three of five, no replica without it can be elected.
    assert not fetch(2, 3)
    assert fetch(3, 3)
    assert state.high_watermark == 3


def test_majority_record_of_an_earlier_epoch_is_replaced_and_was_never_committed() -> None:
    quorum = SimulatedQuorum(2, voters=5, is_dynamic=False)
    for node_id in (1, 2, 3):
        write_log(quorum.replicas[node_id], [1, 2], newest_epoch=4)
    write_log(quorum.replicas[4], [1], newest_epoch=4)
    write_log(quorum.replicas[5], [1, 3], newest_epoch=4)

    # The leader of epoch 4 had replicated the record of epoch 2 to a majority, and died before one of its own.
    quorum.start_all([3, 4, 5])
    quorum.run_until(quorum.has_working_leader)
    assert quorum.leader() is quorum.replicas[5]
    quorum.start_all([1, 2])
    quorum.append()
    quorum.run_until(lambda: have_the_same(*quorum.replicas.values()), within_ms=10_000)

    assert {log_of(each) for each in quorum.replicas.values()} == {log_of(quorum.replicas[5])}


# --- snapshots


def test_crash_before_the_log_below_a_snapshot_is_removed_keeps_the_snapshot() -> None:
    quorum, leader, other, follower = three_static()
    for each in (leader, other):
        write_snapshot(each, OffsetAndEpoch(10, 3))
        write_log(each, [5], newest_epoch=5)
    write_log(follower, [1, 1, 1], newest_epoch=5)
    write_snapshot(follower, OffsetAndEpoch(10, 3))

    quorum.start_all()

    assert follower.client.log_end_offset == 10
    assert follower.loaded == [OffsetAndEpoch(10, 3)]
    quorum.run_until(lambda: have_the_same(leader, other, follower), within_ms=10_000)
    assert log_of(follower, 10) == log_of(leader, 10)


def test_snapshot_is_loaded_again_if_the_log_up_to_its_end_diverged() -> None:
    quorum, leader, other, follower = three_static()
    for each in (leader, other):
        write_snapshot(each, OffsetAndEpoch(10, 3))
        write_log(each, [5], newest_epoch=5)
    # Its log ends where the snapshot does, but in an epoch whose leader never committed anything; it crashed before
    # the log restarted at the snapshot.
    write_log(follower, [1, 1, 1, 1, 1, 1, 1, 4, 4, 4], newest_epoch=5)
    write_snapshot(follower, OffsetAndEpoch(10, 3))

    quorum.start_all()

    quorum.run_until(lambda: have_the_same(leader, other, follower), within_ms=10_000)
    assert log_of(follower, 10) == log_of(leader, 10)
    quorum.kill(FOLLOWER, power_cut=True)
    follower.start()
    assert follower.client.latest_snapshot == OffsetAndEpoch(10, 3)
    quorum.run_until(lambda: have_the_same(leader, other, follower), within_ms=10_000)


def test_leader_behind_a_follower_s_snapshot_is_not_followed() -> None:
    quorum, leader, other, follower = three_static()
    for each in (leader, other):
        write_log(each, [1, 1, 1, 2, 2], newest_epoch=3)
    write_snapshot(follower, OffsetAndEpoch(10, 3))
    write_log(follower, [], newest_epoch=3)
    quorum.start_all([LEADER, OTHER])
    quorum.run_until(quorum.has_working_leader)

    follower.start()

    with pytest.raises(InvariantViolation, match="has lost records"):
        quorum.run(10_000)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
def test_snapshot_is_loaded_while_records_arrive_and_leaders_fail(seed: int, power_cut: bool) -> None:
    config = RaftConfig(retention_size_bytes=2_000, retention_ms=-1)
    quorum = SimulatedQuorum(seed, voters=3, config=config, snapshot_interval_batches=20)
    quorum.start_all()
    quorum.run_until(quorum.has_working_leader)
    leader = quorum.leader()
    assert leader is not None
    follower = next(each for each in quorum.running() if each is not leader)
    quorum.kill(follower.node_id)
    quorum.append_every(200)
    quorum.run(70_000)

    follower.start()
    for _ in range(5):
        quorum.run(quorum.random.randrange(40))
        now_leads = quorum.leader()
        if now_leads is not None and now_leads is not follower:
            quorum.kill(now_leads.node_id, power_cut=power_cut)
            quorum.run(quorum.random.randrange(200))
            now_leads.start()

    quorum.run_until(lambda: bool(follower.loaded) and quorum.has_working_leader(), within_ms=20_000)
    target = quorum.committed_offset + 10
    quorum.run_until(lambda: all(each.next_offset >= target for each in quorum.running()), within_ms=20_000)
