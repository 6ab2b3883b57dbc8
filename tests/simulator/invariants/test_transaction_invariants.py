"""Invariants of transactions: what they accept, and what they report."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.invariants.state_observer import NO_REPLICA, ReplicaChange, ReplicaState
from ottla.simulator.invariants.transaction_invariants import Ending, LastStableOffset, TransactionInvariants
from ottla.types import TRANSACTION_STATE_TOPIC, TopicPartition, Uuid


@pytest.fixture
def invariants() -> TransactionInvariants:
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    return TransactionInvariants(state_observer, "t")


@pytest.mark.parametrize(
    ("ending", "read", "is_kept"),
    [
        (Ending.COMMITTED, (0, 1), True),
        (Ending.COMMITTED, (0,), False),
        (Ending.COMMITTED, (), False),
        (Ending.ABORTED, (), True),
        (Ending.ABORTED, (1,), False),
        (Ending.UNKNOWN, (), True),
        (Ending.UNKNOWN, (0, 1), True),
        (Ending.UNKNOWN, (1,), False),
    ],
    ids=str,
)
def test_all_of_a_transaction_is_read_or_nothing(
    invariants: TransactionInvariants, ending: Ending, read: tuple[int, ...], is_kept: bool
) -> None:
    invariants.begin("a", {0: b"a0", 1: b"a1"}).ending = ending
    for partition in read:
        invariants.on_read(partition, b"a%d" % partition)

    if is_kept:
        invariants.check_all_or_nothing()
    else:
        with pytest.raises(InvariantViolation, match="AllOrNothing"):
            invariants.check_all_or_nothing()


def test_record_is_read_once(invariants: TransactionInvariants) -> None:
    invariants.on_read(0, b"a")

    with pytest.raises(InvariantViolation, match="CommittedOnce"):
        invariants.on_read(0, b"a")


def test_batch_of_a_fenced_producer_is_not_acknowledged(invariants: TransactionInvariants) -> None:
    invariants.on_fenced_append(b"late")
    invariants.on_appended(b"in time")

    with pytest.raises(InvariantViolation, match="NoAppendOfFencedProducers"):
        invariants.on_appended(b"late")


def test_lost_decisions_excuse_everything(invariants: TransactionInvariants) -> None:
    ledger = invariants.state_observer.ledger
    ledger.partition(PartitionKey(TRANSACTION_STATE_TOPIC, Uuid(bytes(16)), 0)).is_excused = True
    invariants.begin("a", {0: b"a0"}).ending = Ending.COMMITTED

    invariants.check_all_or_nothing()


def stable(
    offset: int, *, high_watermark: int, leads: bool = True, epoch: int = 1, before: ReplicaState | None = None
) -> ReplicaChange:
    """Return a change of the replica on node 1 to this last stable offset."""
    now = ReplicaState(leads, epoch, high_watermark, high_watermark)
    place: Any = SimpleNamespace(node_id=1)
    partition: Any = SimpleNamespace(log=SimpleNamespace(last_stable_offset=offset))
    return ReplicaChange(place, partition, PartitionKey("t", Uuid(bytes(16)), 0), before or now, now)


def test_last_stable_offset_is_at_most_the_high_watermark(invariants: TransactionInvariants) -> None:
    invariant = LastStableOffset(invariants.state_observer)
    invariant.on_replica(stable(5, high_watermark=5))

    with pytest.raises(InvariantViolation, match="above its high watermark 5"):
        invariant.on_replica(stable(6, high_watermark=5))


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (stable(4, high_watermark=6), False),
        (stable(4, high_watermark=6, epoch=2), True),
        (stable(4, high_watermark=6, leads=False), True),
        (stable(4, high_watermark=6, before=NO_REPLICA), True),
    ],
    ids=["leader", "next leader epoch", "follower", "restarted"],
)
def test_last_stable_offset_of_a_leader_does_not_go_back(
    invariants: TransactionInvariants, change: ReplicaChange, is_kept: bool
) -> None:
    invariant = LastStableOffset(invariants.state_observer)
    invariant.on_replica(stable(5, high_watermark=6))

    if is_kept:
        invariant.on_replica(change)
    else:
        with pytest.raises(InvariantViolation, match="went from 5 to 4"):
            invariant.on_replica(change)


@pytest.mark.parametrize(("last_stable_offset", "is_open"), [(4, True), (5, False)])
def test_partition_with_an_open_transaction_is_found(
    invariants: TransactionInvariants, last_stable_offset: int, is_open: bool
) -> None:
    partition = TopicPartition("t", 0)
    log = SimpleNamespace(last_stable_offset=last_stable_offset, high_watermark=5)
    observer: Any = invariants.state_observer
    observer.image = SimpleNamespace(
        topics=SimpleNamespace(by_name={"t": SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})})
    )
    node = SimpleNamespace(process=SimpleNamespace(logs={partition: log}))
    observer.cluster = SimpleNamespace(nodes={1: node})

    assert invariants.open_partitions(["t", "unknown"]) == ([partition] if is_open else [])
