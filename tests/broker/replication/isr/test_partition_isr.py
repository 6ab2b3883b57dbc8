"""The ISR state machine alone: every transition of its table."""

from itertools import product

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.cluster import BrokerRegistration, ClusterImage
from ottla.metadata.topics import PartitionRegistration
from ottla.replication.isr.isr_change import IsrChange, IsrOutcome
from ottla.replication.isr.partition_isr import TRANSITIONS, IsrEvent, IsrState, PartitionIsr
from ottla.replication.isr.remote_replica import EXCLUDED_MS_MAX, EXCLUDED_MS_MIN
from ottla.replication.peer_brokers import Brokers
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.alter_partition import AlterPartitionResponsePartitionData

TOPIC_ID = Uuid(b"t" * 16)
LAG_MS = 1_000


def registration(*isr: int, leader: int = 1, epoch: int = 1, partition_epoch: int = 1) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(1, 2, 3),
        directories=(TOPIC_ID,) * 3,
        isr=isr or (1, 2, 3),
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
    )


def brokers(epochs_before: int = 0) -> Brokers:
    known = Brokers()
    known.image = ClusterImage(
        {
            broker_id: BrokerRegistration(
                broker_id=broker_id,
                epoch=broker_id + epochs_before,
                incarnation_id=TOPIC_ID,
                listeners={},
                features={},
                rack=None,
                is_fenced=False,
                in_controlled_shutdown=False,
                directories=(),
            )
            for broker_id in (1, 2, 3)
        }
    )
    return known


def leading(*isr: int) -> PartitionIsr:
    """Return the machine of a leader whose log ends at 10, at time 0."""
    machine = PartitionIsr(
        topic_partition=TopicPartition("t", 0), topic_id=TOPIC_ID, node_id=1, brokers=brokers(), lag_time_max_ms=LAG_MS
    )
    machine.on_leading(registration(*isr), is_new_epoch=True, is_new_leader=True, end_offset=10, now_ms=0)
    return machine


def fetch(machine: PartitionIsr, broker_id: int, offset: int, now_ms: int) -> None:
    machine.remote[broker_id].on_fetch(
        offset=offset, log_start_offset=0, leader_end_offset=10, broker_epoch=broker_id, session=None, now_ms=now_ms
    )


def expanding() -> tuple[PartitionIsr, IsrChange]:
    machine = leading(1, 2)
    fetch(machine, 3, 10, now_ms=5)
    change = machine.on_expansion_check(high_watermark=10, now_ms=10, own_broker_epoch=1)
    assert change is not None
    return machine, change


def shrinking() -> tuple[PartitionIsr, IsrChange]:
    machine = leading()
    fetch(machine, 2, 10, now_ms=5)
    change = machine.on_lag_check(end_offset=10, now_ms=LAG_MS + 1, own_broker_epoch=1)
    assert change is not None
    return machine, change


def response(
    code: ErrorCode = ErrorCode.NONE, *isr: int, leader_epoch: int = 1, partition_epoch: int = 2
) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        error_code=code, leader_id=1, leader_epoch=leader_epoch, isr=list(isr), partition_epoch=partition_epoch
    )


def test_caught_up_follower_is_proposed_and_counts_until_the_response() -> None:
    machine, change = expanding()

    assert machine.state is IsrState.EXPANDING
    assert (change.isr, change.broker_epochs) == ((1, 2, 3), (1, -1, 3))
    assert machine.maximal == (1, 2, 3)
    assert machine.on_expansion_check(high_watermark=10, now_ms=10, own_broker_epoch=1) is None


def test_lagging_member_is_dropped_and_counts_until_the_response() -> None:
    machine, change = shrinking()

    assert machine.state is IsrState.SHRINKING
    assert change.isr == (1, 2)
    assert machine.maximal == (1, 2, 3)
    assert machine.on_lag_check(end_offset=10, now_ms=LAG_MS + 2, own_broker_epoch=1) is None


@pytest.mark.parametrize("pending", [pytest.param(expanding, id="expanding"), pytest.param(shrinking, id="shrinking")])
@pytest.mark.parametrize(
    ("decided", "outcome", "is_pending"),
    [
        pytest.param(response(ErrorCode.NONE, 1, 2), IsrOutcome.COMMITTED, False, id="changed"),
        pytest.param(response(ErrorCode.INELIGIBLE_REPLICA), IsrOutcome.REJECTED, False, id="rejected"),
        pytest.param(response(ErrorCode.INVALID_UPDATE_VERSION), IsrOutcome.AWAITS_METADATA, True, id="behind"),
        pytest.param(response(ErrorCode.NONE, 1, leader_epoch=2), IsrOutcome.AWAITS_METADATA, True, id="other-epoch"),
        pytest.param(response(ErrorCode.UNKNOWN_SERVER_ERROR), IsrOutcome.RETRY, True, id="failed"),
    ],
)
def test_response_of_the_controller_decides_whether_the_change_stays_pending(
    pending: object, decided: AlterPartitionResponsePartitionData, outcome: IsrOutcome, is_pending: bool
) -> None:
    assert callable(pending)
    machine, change = pending()

    assert machine.on_response(change, decided, now_ms=10) is outcome
    assert (machine.state is not IsrState.COMMITTED) is is_pending
    assert (machine.pending is change) is is_pending


def test_response_to_a_change_that_is_not_pending_any_more_is_ignored() -> None:
    machine, change = expanding()
    machine.on_leading(
        registration(1, partition_epoch=2), is_new_epoch=False, is_new_leader=False, end_offset=10, now_ms=9
    )

    newest = response(ErrorCode.NONE, 1, 2, 3, partition_epoch=3)
    assert machine.on_response(change, newest, now_ms=10) is IsrOutcome.IGNORED
    assert (machine.in_sync, machine.state) == ((1,), IsrState.COMMITTED)


def test_ineligible_follower_is_proposed_again_later_and_delays_no_commit_until_then() -> None:
    machine, change = expanding()
    fetch(machine, 2, 12, now_ms=10)
    machine.on_response(change, response(ErrorCode.INELIGIBLE_REPLICA), now_ms=10)
    limits = {"end_offset": 12, "min_in_sync": 1}

    for now_ms in (11, 9 + EXCLUDED_MS_MIN):
        fetch(machine, 3, 10, now_ms=now_ms)
        assert machine.on_expansion_check(high_watermark=10, now_ms=now_ms, own_broker_epoch=1) is None
        assert machine.committable_offset(12, now_ms=now_ms, **limits) == 12
    fetch(machine, 3, 10, now_ms=10 + EXCLUDED_MS_MIN)
    again = machine.on_expansion_check(high_watermark=10, now_ms=10 + EXCLUDED_MS_MIN, own_broker_epoch=1)
    assert again is not None
    assert again.isr == (1, 2, 3)


def test_follower_that_is_rejected_again_and_again_is_proposed_ever_later() -> None:
    machine, change = expanding()
    now_ms, waits_ms = 10, []
    for _ in range(7):
        machine.on_response(change, response(ErrorCode.INELIGIBLE_REPLICA), now_ms=now_ms)
        waits_ms.append(machine.remote[3].excluded_until_ms - now_ms)
        now_ms = machine.remote[3].excluded_until_ms
        fetch(machine, 3, 10, now_ms=now_ms)
        again = machine.on_expansion_check(high_watermark=10, now_ms=now_ms, own_broker_epoch=1)
        assert again is not None
        change = again
    assert waits_ms == [EXCLUDED_MS_MIN << number for number in range(3)] + [EXCLUDED_MS_MAX] * 4

    machine.on_response(change, response(ErrorCode.NONE, 1, 2, 3, partition_epoch=2), now_ms=now_ms)
    assert machine.remote[3].rejections == 0


def test_next_incarnation_of_an_ineligible_follower_is_proposed_at_once() -> None:
    machine, change = expanding()
    machine.on_response(change, response(ErrorCode.INELIGIBLE_REPLICA), now_ms=10)
    machine.brokers = brokers(epochs_before=30)
    machine.remote[3].on_fetch(
        offset=10, log_start_offset=0, leader_end_offset=10, broker_epoch=33, session=None, now_ms=11
    )

    again = machine.on_expansion_check(high_watermark=10, now_ms=11, own_broker_epoch=1)
    assert again is not None
    assert again.broker_epochs == (1, -1, 33)


def test_known_metadata_leaves_the_change_pending() -> None:
    machine, change = expanding()
    machine.on_leading(registration(1, 2), is_new_epoch=False, is_new_leader=False, end_offset=10, now_ms=9)

    assert machine.pending is change


@pytest.mark.parametrize("pending", [pytest.param(expanding, id="expanding"), pytest.param(shrinking, id="shrinking")])
def test_node_that_does_not_lead_any_more_proposes_nothing(pending: object) -> None:
    assert callable(pending)
    followed, _ = pending()
    stopped, _ = pending()
    followed.on_following(registration(leader=2, epoch=2, partition_epoch=2))
    stopped.on_stopped()

    for machine in (followed, stopped):
        assert (machine.state, machine.pending) == (IsrState.NOT_LEADING, None)
        assert machine.on_expansion_check(high_watermark=0, now_ms=10, own_broker_epoch=1) is None
        assert machine.on_lag_check(end_offset=10, now_ms=10 * LAG_MS, own_broker_epoch=1) is None


def test_nothing_is_committable_below_the_minimum_of_in_sync_replicas() -> None:
    machine = leading(1, 2)
    fetch(machine, 2, 7, now_ms=5)
    limits = {"end_offset": 10, "now_ms": 10 * LAG_MS}

    assert machine.committable_offset(10, min_in_sync=2, **limits) == 7
    assert machine.committable_offset(10, min_in_sync=3, **limits) is None


def test_follower_outside_the_set_delays_commits_only_while_it_fetches() -> None:
    """A broker that was cut off is unfenced again before its first fetch arrives."""
    machine = leading(1, 2)
    fetch(machine, 2, 10, now_ms=5)
    fetch(machine, 3, 9, now_ms=5)
    machine.remote[3].last_caught_up_ms = 5
    age_ms = machine.fetch_age_max_ms

    def committable(now_ms: int) -> int | None:
        return machine.committable_offset(10, end_offset=10, min_in_sync=2, now_ms=now_ms)

    assert committable(5 + age_ms) == 9
    assert committable(5 + age_ms + 1) == 10


def test_every_state_can_be_left_and_only_a_leader_has_a_pending_change() -> None:
    assert {state for state, _ in TRANSITIONS} == set(IsrState)
    for state, event in product(IsrState, (IsrEvent.CAUGHT_UP, IsrEvent.LAGGED)):
        assert ((state, event) in TRANSITIONS) == (state is IsrState.COMMITTED)


class Session:
    """A follower's fetch session."""

    def __init__(self, confirmed_ms: int) -> None:
        self.last_used_ms = self.confirmed_ms = confirmed_ms


def on_fetch(machine: PartitionIsr, broker_id: int, session: Session | None, *, now_ms: int = 900) -> None:
    machine.remote[broker_id].on_fetch(
        offset=10, log_start_offset=0, leader_end_offset=10, broker_epoch=broker_id, session=session, now_ms=now_ms
    )


def test_leadership_is_confirmed_as_of_the_oldest_confirmation_of_the_maximal_isr() -> None:
    machine = leading(1, 2)
    assert machine.leadership_confirmed_ms(1_000) < 0, "no follower has fetched"
    on_fetch(machine, 2, Session(700))
    on_fetch(machine, 3, Session(600))
    assert machine.leadership_confirmed_ms(1_000) == 700

    assert machine.on_expansion_check(high_watermark=10, now_ms=10, own_broker_epoch=1) is not None
    assert machine.leadership_confirmed_ms(1_000) == 600, "broker 3 may be in sync already"


def test_fetch_without_a_session_confirms_the_leader_when_it_is_read() -> None:
    machine = leading(1, 2)
    on_fetch(machine, 2, None, now_ms=900)

    assert machine.leadership_confirmed_ms(1_000) == 900
    on_fetch(machine, 2, Session(700))
    assert machine.leadership_confirmed_ms(1_000) == 700


def test_replica_that_is_in_sync_alone_needs_no_confirmation() -> None:
    assert leading(1).leadership_confirmed_ms(1_000) == 1_000


@pytest.mark.parametrize("session", [None, Session(700)], ids=["without-session", "with-session"])
def test_confirmation_ends_with_the_leader_epoch(session: Session | None) -> None:
    machine = leading(1, 2)
    on_fetch(machine, 2, session)
    machine.on_leading(
        registration(1, 2, epoch=2, partition_epoch=2),
        is_new_epoch=True,
        is_new_leader=False,
        end_offset=10,
        now_ms=950,
    )

    assert machine.leadership_confirmed_ms(1_000) < 0
