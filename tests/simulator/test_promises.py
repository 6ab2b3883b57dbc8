"""The promises of log starts and of the quorum, and who may lose a disk: each is kept on one side of its edge only."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.simulator.cluster import Cluster
from ottla.simulator.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.log_start_promises import FollowersKnowLess, OnlyUnwantedRecordsAreDeleted
from ottla.simulator.quorum_keeper import QuorumKeeper
from ottla.simulator.witness import Change, ReplicaState
from ottla.types import Uuid

KEY = PartitionKey("t", Uuid(bytes(16)), 0)


def state(*, leads: bool = False, high_watermark: int = 10, start: int = 0) -> ReplicaState:
    return ReplicaState(leads, 3, high_watermark, 20, start)


def change(before: ReplicaState, now: ReplicaState, *, size_bytes: int = 100, **config: Any) -> Change:
    log = SimpleNamespace(config=LogConfig(**config), size_bytes=size_bytes)
    return Change(SimpleNamespace(node_id=1), SimpleNamespace(log=log), KEY, before, now)  # type: ignore[arg-type]


@pytest.fixture
def witness() -> Any:
    made = SimpleNamespace(ledger=Ledger())
    made.ledger.of(KEY).values = [b""] * 10
    return made


@pytest.mark.parametrize(("start", "is_kept"), [(5, True), (6, False)], ids=["as-asked", "one-more"])
def test_a_log_starts_no_later_than_was_asked_for(witness: Any, start: int, is_kept: bool) -> None:
    witness.ledger.of(KEY).deleted_to = 5
    promise = OnlyUnwantedRecordsAreDeleted(witness)

    if is_kept:
        promise.on_replica(change(state(), state(start=start)))
        promise.on_skipped(KEY, 0, start)
    else:
        with pytest.raises(InvariantViolation, match="starts at 6; deletion was asked for below 5"):
            promise.on_replica(change(state(), state(start=start)))
        with pytest.raises(InvariantViolation, match="a consumer at offset 0"):
            promise.on_skipped(KEY, 0, start)


@pytest.mark.parametrize(
    ("config", "is_kept"),
    [
        pytest.param({"retention_bytes": 100}, True, id="enough-is-left"),
        pytest.param({"retention_bytes": 101}, False, id="too-little-is-left"),
        pytest.param({"retention_ms": 1_000}, True, id="by-age"),
    ],
)
def test_retention_leaves_what_it_must(witness: Any, config: dict[str, int], is_kept: bool) -> None:
    promise = OnlyUnwantedRecordsAreDeleted(witness)

    if is_kept:
        promise.on_replica(change(state(), state(start=6), **config))
        assert witness.ledger.of(KEY).deleted_to == 6
    else:
        with pytest.raises(InvariantViolation, match="OnlyUnwantedRecordsAreDeleted"):
            promise.on_replica(change(state(), state(start=6), **config))


def test_a_log_start_goes_neither_back_nor_past_what_is_committed(witness: Any) -> None:
    witness.ledger.of(KEY).deleted_to = 20
    promise = OnlyUnwantedRecordsAreDeleted(witness)

    with pytest.raises(InvariantViolation, match="started at 5 and starts at 4 now"):
        promise.on_replica(change(state(start=5), state(start=4)))
    with pytest.raises(InvariantViolation, match="starts at 11; committed is 10"):
        promise.on_replica(change(state(), state(start=11)))


def test_a_follower_knows_at_most_what_a_leader_has_said(witness: Any) -> None:
    promise = FollowersKnowLess(witness)
    promise.on_replica(change(state(high_watermark=0), state(leads=True, high_watermark=7)))
    promise.on_replica(change(state(high_watermark=0), state(high_watermark=7)))

    with pytest.raises(InvariantViolation, match="no leader has said more than 7"):
        promise.on_replica(change(state(high_watermark=7), state(high_watermark=8)))


def test_a_voter_may_lose_its_disk_while_the_quorum_is_whole_and_is_wanted_back_after_it() -> None:
    cluster = Cluster(seed=1)
    cluster.start()
    cluster.run_until_ready()
    asked: list[tuple[str, int]] = []
    administrator = SimpleNamespace(
        remove_voter=lambda node_id, directory_id: asked.append(("remove", node_id)),
        add_voter=lambda node_id, directory_id, endpoint: asked.append(("add", node_id)),
    )
    keeper = QuorumKeeper(cluster, SimpleNamespace(), administrator)  # type: ignore[arg-type]
    cluster.run_until(lambda: keeper.is_whole)
    assert keeper.is_settled
    wiped = next(node_id for node_id in cluster.nodes if node_id != cluster.leader_id())

    cluster.kill(wiped)
    assert not keeper.is_whole
    assert keeper.is_settled
    cluster.wipe(wiped)
    cluster.format(wiped, joins=True)
    cluster.start(wiped)
    cluster.run(5_000)
    keeper._step()

    assert not keeper.is_whole
    assert asked == [("remove", wiped)]
