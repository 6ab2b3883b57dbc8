"""Brokers that register, fail, stop in order and return: the responses, and the changes of their partitions."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.types import Uuid
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.metadata_log import BrokerRegistrationChangeRecord
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

SESSION_MS = 9_000


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    cluster = new_cluster(1, 2, 3)
    cluster.assign("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    return cluster


def shut_down(cluster: Any, broker_id: int, **overrides: Any) -> Any:
    return cluster.ask(cluster.heartbeat(broker_id, want_shut_down=True, **overrides))


# --- registration


def test_second_broker_with_an_id_in_use_waits_for_the_session_timeout(cluster: Any) -> None:
    other = cluster.registration(1)

    early = cluster.ask(other).error_code
    for broker_id in (2, 3):
        cluster.ask(cluster.heartbeat(broker_id))
    cluster.wait(SESSION_MS)
    late = cluster.ask(other).error_code

    assert (early, late) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("sends_heartbeat", "has_its_directories", "code"),
    [
        pytest.param(False, True, ErrorCode.NONE, id="the-next-incarnation"),
        pytest.param(False, False, ErrorCode.DUPLICATE_BROKER_REGISTRATION, id="other-directories"),
        pytest.param(True, True, ErrorCode.DUPLICATE_BROKER_REGISTRATION, id="a-copy-of-its-directories"),
    ],
)
def test_quickly_restarted_broker_need_not_wait_for_the_former_session(
    cluster: Any, sends_heartbeat: bool, has_its_directories: bool, code: ErrorCode
) -> None:
    before = cluster.broker_of(1)
    cluster.active.on_broker_connection_lost(1, before.epoch)
    if sends_heartbeat:
        cluster.ask(cluster.heartbeat(1))
    directories = list(before.directories) if has_its_directories else [Uuid(b"o" * 16)]

    assert cluster.ask(cluster.registration(1, log_dirs=directories)).error_code == code

    assert (cluster.broker_of(1).epoch > before.epoch) == (code is ErrorCode.NONE)


def test_restarted_broker_need_not_wait_after_a_controller_failover(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, controllers=2)
    cluster.elect(102)
    cluster.ask(cluster.heartbeat(2))

    silent, sent_heartbeat = (cluster.ask(cluster.registration(each)).error_code for each in (1, 2))

    assert (silent, sent_heartbeat) == (ErrorCode.NONE, ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def test_same_process_registers_again_under_the_same_epoch(cluster: Any) -> None:
    before = cluster.broker_of(1)

    response = cluster.ask(cluster.registration(1, incarnation_id=before.incarnation_id, rack="moved"))

    after = cluster.broker_of(1)
    assert response.broker_epoch == before.epoch == after.epoch
    assert (after.rack, after.is_fenced) == ("moved", False)
    assert cluster.partition("t").leader == 1
    cluster.wait(SESSION_MS)
    assert cluster.broker_of(1).is_fenced, "its session continues, and times out"


@pytest.mark.parametrize(
    ("log_dirs", "is_rejected"),
    [
        pytest.param([Uuid(bytes([102]) * 16)], True, id="another-broker-s"),
        pytest.param([Uuid(bytes(15) + b"\x63")], True, id="the-last-reserved-one"),
        pytest.param([Uuid(bytes(15) + b"\x64")], False, id="the-first-that-is-not"),
        pytest.param([Uuid(b"a" * 16), Uuid(b"b" * 16)], False, id="two-of-its-own"),
        pytest.param([Uuid(b"a" * 16), Uuid(b"a" * 16)], True, id="one-twice"),
    ],
)
def test_log_directory_ids_must_be_unique(cluster: Any, log_dirs: list[Uuid], is_rejected: bool) -> None:
    response = cluster.ask(cluster.registration(9, log_dirs=log_dirs))

    assert (response.error_code == ErrorCode.INVALID_REGISTRATION) == is_rejected
    assert (9 in cluster.image.cluster.brokers) != is_rejected


def test_former_incarnation_gets_stale_broker_epoch(cluster: Any) -> None:
    former = cluster.epoch_of(1)
    cluster.fence(1)
    cluster.restart_broker(1, clean=True)

    heartbeat = cluster.ask(cluster.heartbeat(1, epoch=former))
    ids = cluster.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=former))
    proposal = cluster.alter_partition("t", [2, 3], partition=1, proposer=2, broker_epoch=former)

    assert heartbeat.error_code == ids.error_code == proposal.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert not cluster.broker_of(1).is_fenced


def test_epochs_grow_with_every_incarnation(cluster: Any) -> None:
    epochs = [cluster.epoch_of(1)]
    for clean in (True, False):
        cluster.fence(1)
        cluster.restart_broker(1, clean=clean)
        epochs.append(cluster.epoch_of(1))

    assert epochs == sorted(set(epochs))


# --- sessions


def test_sessions_time_out_one_by_one_based_on_the_previous_decision(cluster: Any) -> None:
    cluster.wait(SESSION_MS - 1)
    cluster.ask(cluster.heartbeat(3))
    cluster.wait(1)

    assert [cluster.broker_of(each).is_fenced for each in (1, 2, 3)] == [True, True, False]
    assert {cluster.partition("t", number).leader for number in range(3)} == {3}
    assert cluster.active.metrics().ended_sessions == 2


def test_fenced_broker_is_unfenced_by_its_next_heartbeat(cluster: Any) -> None:
    cluster.wait(SESSION_MS)
    assert cluster.partition("t").leader == -1

    second = cluster.ask(cluster.heartbeat(2))
    without_the_last = cluster.partition("t").leader
    third = cluster.ask(cluster.heartbeat(3))

    assert (second.is_fenced, third.is_fenced) == (False, False)
    assert without_the_last == -1, "only the last one in sync has everything"
    assert cluster.partition("t").leader == 3


# --- controlled shutdown


def test_broker_may_stop_once_all_brokers_have_applied_its_leader_changes(cluster: Any) -> None:
    first = shut_down(cluster, 1)
    moved_at = cluster.image.provenance.last_contained_offset
    others_behind = shut_down(cluster, 1)
    cluster.ask(cluster.heartbeat(2, offset=moved_at))
    cluster.ask(cluster.heartbeat(3, offset=moved_at - 1))
    one_behind = shut_down(cluster, 1)
    cluster.ask(cluster.heartbeat(3, offset=moved_at))
    all_there = shut_down(cluster, 1)

    responses = [response.should_shut_down for response in (first, others_behind, one_behind, all_there)]
    assert responses == [False, False, False, True]
    assert cluster.partition("t").leader == 2
    assert cluster.partition("t").isr == (2, 3)
    assert cluster.broker_of(1).is_fenced


def test_leaders_move_with_the_first_heartbeat_and_not_again(cluster: Any) -> None:
    before = len(cluster.records)
    shut_down(cluster, 1)
    first = cluster.records[before:]
    shut_down(cluster, 1)

    assert [type(record.message).__name__ for record in first] == [
        *["PartitionChangeRecord"] * 3,
        "BrokerRegistrationChangeRecord",
    ]
    assert len(cluster.records) == before + len(first)


def test_new_controller_continues_a_controlled_shutdown(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, controllers=2)
    cluster.assign("t", [1, 2])
    shut_down(cluster, 1)
    cluster.elect(102)

    response = shut_down(cluster, 1)

    assert cluster.partition("t").leader == 2
    assert response.should_shut_down


def test_stopping_broker_gets_no_replicas_and_no_leaders(cluster: Any) -> None:
    shut_down(cluster, 1)

    rejected = cluster.create_topic("u", 1, 3).error_code
    cluster.create_topic("v", 4, 2)

    assert rejected == ErrorCode.INVALID_REPLICATION_FACTOR
    assert all(1 not in cluster.partition("v", number).replicas for number in range(4))


def test_cluster_stopped_in_order_restarts_with_the_same_leaders(cluster: Any) -> None:
    for broker_id in (1, 2, 3):
        for _ in range(3):
            for other in (1, 2, 3):
                if cluster.broker_of(other).is_active and other != broker_id:
                    cluster.ask(cluster.heartbeat(other))
            response = shut_down(cluster, broker_id)
        assert response.should_shut_down
    stopped = [cluster.partition("t", number) for number in range(3)]
    for broker_id in (3, 2, 1):
        cluster.restart_broker(broker_id, clean=True)

    assert {each.leader for each in stopped} == {-1}
    assert {cluster.partition("t", number).leader for number in range(3)} == {3}
    assert cluster.active.metrics().unclean_leader_elections == 0


# --- unregistration, directories


def test_unregistered_broker_may_be_replaced(cluster: Any) -> None:
    unregistered = cluster.ask(UnregisterBrokerRequest(broker_id=1))
    unknown = cluster.ask(UnregisterBrokerRequest(broker_id=1))
    heartbeat = cluster.ask(cluster.heartbeat(1, epoch=1))

    assert (unregistered.error_code, unknown.error_code) == (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED)
    assert unknown.error_message == "Broker ID 1 is not currently registered"
    assert heartbeat.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.partition("t").isr == (2, 3)
    cluster.add_brokers(1)
    assert cluster.alter_partition("t", [2, 3, 1]).error_code == ErrorCode.NONE


def test_cordoned_directories_are_recorded_once_and_take_no_new_replicas(cluster: Any) -> None:
    cordoned = list(cluster.broker_of(1).directories)

    first = cluster.records_of(cluster.heartbeat(1, cordoned_log_dirs=cordoned))
    again = cluster.records_of(cluster.heartbeat(1, cordoned_log_dirs=cordoned))
    silent = cluster.records_of(cluster.heartbeat(1))

    assert [(type(each.message), each.version) for each in first] == [(BrokerRegistrationChangeRecord, 3)]
    assert (again, silent) == ([], [])
    assert cluster.create_topic("u", 1, 3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.ask(cluster.heartbeat(1, cordoned_log_dirs=[]))
    assert cluster.create_topic("u", 1, 3).error_code == ErrorCode.NONE


def test_replicas_on_brokers_with_several_directories_are_assigned_by_the_broker(
    new_cluster: Callable[..., Any],
) -> None:
    cluster = new_cluster(1)
    cluster.add_brokers(2, directories=2)

    cluster.assign("t", [1, 2])

    unassigned = Uuid(bytes(15) + b"\x01")
    assert cluster.partition("t").directories == (cluster.broker_of(1).directories[0], unassigned)
