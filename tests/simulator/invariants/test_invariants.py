"""Invariants of log starts and of the quorum, and voters that may lose a disk: each is kept on one side of its edge."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.log.config import LogConfig
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.voter_reconciler import REMOVAL_LIMIT_MS, VoterReconciler
from ottla.simulator.invariants.cluster_invariants import MonotonicHighWatermark, ReplicasIdenticalBelowHighWatermark
from ottla.simulator.invariants.deleted_segment import DeletedSegment
from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.invariants.log_start_invariants import FollowersKnowLess, OnlyUnwantedRecordsAreDeleted
from ottla.simulator.invariants.state_observer import NO_REPLICA, ReplicaChange, ReplicaState, SegmentDeletion
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.cluster import Cluster
from ottla.types import Uuid
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from ottla.wire.records import Record, build_batch, parse_batch

KEY = PartitionKey("t", Uuid(bytes(16)), 0)


def state(*, leads: bool = False, high_watermark: int = 10, start: int = 0) -> ReplicaState:
    return ReplicaState(leads, 3, high_watermark, 20, start)


def change(before: ReplicaState, now: ReplicaState) -> ReplicaChange:
    return ReplicaChange(SimpleNamespace(node_id=1), SimpleNamespace(), KEY, before, now)  # type: ignore[arg-type]


def deletion(end: int, *, start: int = 0, age_ms: int = 0, left_bytes: int = 0, **config: Any) -> SegmentDeletion:
    """Return the deletion of a segment whose newest record is that old by the node's clock."""
    clock = SimulatedClock()
    ages_ms = (age_ms, age_ms + 60_000)
    batches = [
        parse_batch(build_batch([Record(offset, clock.wall_ms() - each_ms, None, b"")], base_offset=offset))
        for offset, each_ms in enumerate(ages_ms, end - len(ages_ms))
    ]
    log = SimpleNamespace(config=LogConfig(**config), log_start_offset=start, high_watermark=end)
    place, partition = SimpleNamespace(node_id=1, clock=clock), SimpleNamespace(log=log)
    return SegmentDeletion(place, partition, KEY, DeletedSegment(batches, end, left_bytes))  # type: ignore[arg-type]


@pytest.fixture
def state_observer() -> Any:
    made = SimpleNamespace(ledger=Ledger(), highest_seen=lambda key, of_leaders: 0)
    made.ledger.partition(KEY).values = [b""] * 10
    return made


@pytest.mark.parametrize(("start", "is_kept"), [(5, True), (6, False)], ids=["as-requested", "one-more"])
def test_log_start_is_at_most_the_requested_one(state_observer: Any, start: int, is_kept: bool) -> None:
    state_observer.ledger.partition(KEY).deleted_to = 5
    invariant = OnlyUnwantedRecordsAreDeleted(state_observer)

    if is_kept:
        invariant.on_replica(change(state(), state(start=start)))
        invariant.on_skipped(KEY, 0, start)
    else:
        with pytest.raises(InvariantViolation, match="starts at 6; deletion was requested below 5"):
            invariant.on_replica(change(state(), state(start=start)))
        with pytest.raises(InvariantViolation, match="a consumer at offset 0"):
            invariant.on_skipped(KEY, 0, start)


@pytest.mark.parametrize(
    ("what", "is_kept"),
    [
        pytest.param({"left_bytes": 100, "retention_bytes": 100}, True, id="enough-is-left"),
        pytest.param({"left_bytes": 100, "retention_bytes": 101}, False, id="too-little-is-left"),
        pytest.param({"age_ms": 1_001, "retention_ms": 1_000}, True, id="old-enough"),
        pytest.param({"age_ms": 1_000, "retention_ms": 1_000}, False, id="one-record-is-too-young"),
        pytest.param({"age_ms": 1_001, "retention_ms": -1}, False, id="kept-for-ever"),
        pytest.param(
            {"age_ms": 1_001, "retention_ms": 1_000, "cleanup_policy": frozenset({"compact"})}, False, id="compacted"
        ),
        pytest.param({"start": 5}, False, id="read-from-its-last-record-on"),
        pytest.param({"start": 6}, True, id="below-the-log-start"),
    ],
)
def test_retention_deletes_no_record_within_its_limits(
    state_observer: Any, what: dict[str, Any], is_kept: bool
) -> None:
    invariant = OnlyUnwantedRecordsAreDeleted(state_observer)

    if is_kept:
        invariant.on_deletion(deletion(6, **what))
        assert state_observer.ledger.partition(KEY).deleted_to == (0 if "start" in what else 6)
    else:
        with pytest.raises(InvariantViolation, match="which retention"):
            invariant.on_deletion(deletion(6, **what))


def test_deletion_from_an_excused_partition_is_noted(state_observer: Any) -> None:
    """Seeds 500000266, 500000494: a follower restarts at the leader's log start, and cannot know a deleted record."""
    ledger = state_observer.ledger.partition(KEY)
    ledger.is_excused = True

    OnlyUnwantedRecordsAreDeleted(state_observer).on_deletion(deletion(6, retention_ms=-1))

    assert ledger.deleted_to == 6


def test_retention_deletes_committed_records_only(state_observer: Any) -> None:
    invariant = OnlyUnwantedRecordsAreDeleted(state_observer)
    invariant.on_deletion(deletion(10, age_ms=1_001, retention_ms=1_000))

    with pytest.raises(InvariantViolation, match="deletes what is below 11; committed is 10"):
        invariant.on_deletion(deletion(11, age_ms=1_001, retention_ms=1_000))


@pytest.mark.parametrize(("start", "is_kept"), [(6, True), (5, False), (0, False)])
def test_deleted_records_from_the_log_start_on_are_the_committed_ones(start: int, is_kept: bool) -> None:
    """Seed 720099: a former leader had other records, and the new leader's log started behind them."""
    ledgers = Ledger()
    for offset in range(8):
        ledgers.partition(KEY).add(
            parse_batch(build_batch([Record(offset, 0, None, b"committed")], base_offset=offset))
        )
    state_observer: Any = SimpleNamespace(ledger=ledgers)
    invariant = ReplicasIdenticalBelowHighWatermark(state_observer)

    if is_kept:
        invariant.on_deletion(deletion(6, start=start))
    else:
        with pytest.raises(InvariantViolation, match="ReplicasIdenticalBelowHighWatermark"):
            invariant.on_deletion(deletion(6, start=start))


def test_loaded_high_watermark_may_go_back_once_at_a_follower() -> None:
    """Seed 700000166: a power loss had taken the truncation back, but not the checkpoint."""
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    invariant = MonotonicHighWatermark(state_observer)
    invariant.on_replica(change(NO_REPLICA, state(high_watermark=27)))
    invariant.on_replica(change(state(high_watermark=27), state(high_watermark=26)))

    with pytest.raises(InvariantViolation, match="went from 26 to 25"):
        invariant.on_replica(change(state(high_watermark=26), state(high_watermark=25)))


def test_loaded_high_watermark_of_a_leader_never_goes_back() -> None:
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    invariant = MonotonicHighWatermark(state_observer)
    invariant.on_replica(change(NO_REPLICA, state(high_watermark=27)))

    with pytest.raises(InvariantViolation, match="went from 27 to 26"):
        invariant.on_replica(change(state(high_watermark=27), state(leads=True, high_watermark=26)))


def test_records_that_are_deleted_before_an_event_ends_are_committed() -> None:
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    ReplicasIdenticalBelowHighWatermark(state_observer).on_deletion(deletion(2, start=2))

    assert state_observer.ledger.partition(KEY).end == 2


def test_log_start_goes_neither_back_nor_past_the_high_watermark(state_observer: Any) -> None:
    state_observer.ledger.partition(KEY).deleted_to = 20
    invariant = OnlyUnwantedRecordsAreDeleted(state_observer)

    with pytest.raises(InvariantViolation, match="started at 5 and starts at 4 now"):
        invariant.on_replica(change(state(start=5), state(start=4)))
    with pytest.raises(InvariantViolation, match="starts at 11; committed is 10"):
        invariant.on_replica(change(state(), state(start=11, high_watermark=11)))


def test_high_watermark_of_followers_is_at_most_that_of_a_leader(state_observer: Any) -> None:
    invariant = FollowersKnowLess(state_observer)
    invariant.on_replica(change(state(high_watermark=0), state(leads=True, high_watermark=7)))
    invariant.on_replica(change(state(high_watermark=0), state(high_watermark=7)))

    with pytest.raises(InvariantViolation, match="no leader has said more than 7"):
        invariant.on_replica(change(state(high_watermark=7), state(high_watermark=8)))


def test_voter_without_its_disk_is_removed_by_the_reconciler() -> None:
    cluster = Cluster(seed=1)
    cluster.start()
    cluster.run_until_ready()
    requests: list[tuple[str, int]] = []
    administrator = SimpleNamespace(
        remove_voter=lambda node_id, directory_id, on_response: requests.append(("remove", node_id)),
        add_voter=lambda node_id, directory_id, endpoint: requests.append(("add", node_id)),
    )
    voter_reconciler = VoterReconciler(cluster, SimpleNamespace(), administrator)  # type: ignore[arg-type]
    cluster.run_until(lambda: voter_reconciler.is_whole)
    assert voter_reconciler.is_settled
    wiped = next(node_id for node_id in cluster.nodes if node_id != cluster.leader_id())

    cluster.kill(wiped)
    assert not voter_reconciler.is_whole
    assert voter_reconciler.is_settled
    cluster.wipe(wiped)
    cluster.format(wiped, joins=True)
    cluster.start(wiped)
    cluster.run(5_000)
    voter_reconciler._step()

    assert not voter_reconciler.is_whole
    assert requests == [("remove", wiped)]


@pytest.mark.parametrize(
    ("error_code", "is_whole"),
    [
        pytest.param(ErrorCode.NONE, True, id="removed"),
        pytest.param(ErrorCode.VOTER_NOT_FOUND, True, id="removed-before"),
        pytest.param(ErrorCode.REQUEST_TIMED_OUT, False, id="outcome-unknown"),
    ],
)
def test_quorum_is_not_whole_while_a_voter_removal_is_pending(error_code: ErrorCode, is_whole: bool) -> None:
    """Seeds 1293, 5018 and 710127: of the two voters that the removal left, one had lost its disk meanwhile."""
    cluster = Cluster(seed=1)
    cluster.start()
    cluster.run_until_ready()
    callbacks: list[Callable[[PeerResult], None]] = []
    administrator = SimpleNamespace(
        remove_voter=lambda node_id, directory_id, on_response: callbacks.append(on_response)
    )
    voter_reconciler = VoterReconciler(cluster, SimpleNamespace(), administrator)  # type: ignore[arg-type]
    cluster.run_until(lambda: voter_reconciler.is_whole)

    voter_reconciler.send_away(1)
    assert not voter_reconciler.is_whole
    voter_reconciler._step()
    voter_reconciler.take_back(1)
    assert not voter_reconciler.is_whole
    callbacks[0](RemoveRaftVoterResponse(error_code=error_code))
    assert voter_reconciler.is_whole is is_whole

    cluster.run(REMOVAL_LIMIT_MS)
    assert voter_reconciler.is_whole
