"""Brokers register, heartbeat, shut down, crash and return; the records equal those of Kafka 4.3.1 (kafka-dump-log)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.records import MetadataRecord
from ottla.types import Uuid
from ottla.wire.messages import metadata_log as log
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

SESSION_MS = 9_000


def change(node: Any, version: int = 0, **fields: int) -> MetadataRecord:
    return MetadataRecord(
        log.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=node.epoch_of(1), **fields), version
    )


def partition_change(node: Any, **fields: Any) -> MetadataRecord:
    topic_id = node.image.topics.by_name["t"].topic_id
    return MetadataRecord(log.PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields), 2)


def partition(node: Any) -> Any:
    return node.image.topics.by_name["t"].partitions[0]


def test_broker_registers_fenced_with_its_record_s_offset_as_epoch(new_controller: Callable[..., Any]) -> None:
    node = new_controller()
    next_offset = node.raft.log_end_offset

    response = node.ask(node.registration(1))

    assert response.broker_epoch == next_offset
    assert node.image.cluster.brokers[1].is_fenced


def test_broker_is_unfenced_once_it_has_applied_its_registration(new_controller: Callable[..., Any]) -> None:
    node = new_controller()
    epoch = node.ask(node.registration(1)).broker_epoch

    behind = node.ask(node.heartbeat(1, offset=epoch - 1))
    caught_up = node.ask(node.heartbeat(1, offset=epoch))

    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert (caught_up.is_caught_up, caught_up.is_fenced) == (True, False)
    assert node.image.cluster.is_active(1)


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        pytest.param({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
        pytest.param({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION, id="no-directories"),
        pytest.param({"log_dirs": [Uuid(b"x" * 16)] * 2}, ErrorCode.INVALID_REGISTRATION, id="a-directory-twice"),
    ],
)
def test_invalid_registration_is_rejected(
    new_controller: Callable[..., Any], overrides: dict[str, Any], code: ErrorCode
) -> None:
    node = new_controller()

    assert node.ask(node.registration(1, **overrides)).error_code == code
    assert node.image.cluster.brokers == {}


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        pytest.param("metadata.version", ErrorCode.INVALID_REGISTRATION, id="no-metadata-version"),
        pytest.param("group.version", ErrorCode.UNSUPPORTED_VERSION, id="a-finalized-feature"),
        pytest.param("kraft.version", ErrorCode.NONE, id="one-that-is-not-finalized"),
    ],
)
def test_broker_without_the_finalized_features_is_rejected(
    new_controller: Callable[..., Any], missing: str, code: ErrorCode
) -> None:
    node = new_controller()
    registration = node.registration(1)
    registration.features = [each for each in registration.features if each.name != missing]

    assert node.ask(registration).error_code == code


def test_second_incarnation_waits_for_the_first_one_s_session(node: Any) -> None:
    second = node.registration(1)

    node.clock.advance(SESSION_MS - 1)
    early = node.ask(second)
    node.clock.advance(1)
    late = node.ask(second)

    assert early.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert late.error_code == ErrorCode.NONE


def test_repeated_registration_keeps_the_epoch(node: Any) -> None:
    known = node.image.cluster.brokers[1]

    response = node.ask(node.registration(1, incarnation_id=known.incarnation_id))

    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, known.epoch)
    assert not node.image.cluster.brokers[1].is_fenced


def test_heartbeat_with_a_stale_epoch_is_rejected(node: Any) -> None:
    assert node.ask(node.heartbeat(1, epoch=node.epoch_of(1) - 1)).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert node.ask(node.heartbeat(9, epoch=0)).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("silence_ms", "is_fenced"), [pytest.param(SESSION_MS - 1, False, id="in-time"), (SESSION_MS, True)]
)
def test_silent_broker_is_fenced_after_the_session_timeout(node: Any, silence_ms: int, is_fenced: bool) -> None:
    assert node.controller.next_deadline_ms() == node.clock.monotonic_ms() + SESSION_MS

    node.clock.advance(silence_ms)
    node.controller.tick(node.clock.monotonic_ms())
    node.commit()

    assert node.image.cluster.brokers[1].is_fenced == is_fenced


@pytest.mark.parametrize(
    ("listened_ms", "is_fenced"),
    [pytest.param(SESSION_MS - 1, False, id="in-time"), pytest.param(SESSION_MS, True, id="too-late")],
)
def test_pause_of_the_controller_extends_sessions(
    new_controller: Callable[..., Any], listened_ms: int, is_fenced: bool
) -> None:
    node = new_controller(idle_interval_ms=500)
    node.add_brokers(1)
    start_ms = node.clock.monotonic_ms()
    node.controller.tick(start_ms)
    # Paused for a minute, of which the controller expected to be paused for half a second.
    node.clock.advance(60_000)
    node.controller.tick(node.clock.monotonic_ms())

    left_ms = listened_ms - 500
    while left_ms > 0:
        node.clock.advance(min(left_ms, 500))
        left_ms -= 500
        node.controller.tick(node.clock.monotonic_ms())
    node.commit()

    assert node.image.cluster.brokers[1].is_fenced == is_fenced


def test_controlled_shutdown_moves_leaders_before_the_broker_may_stop(node: Any) -> None:
    node.create_topic("t")

    first = node.records_of(node.heartbeat(1, want_shut_down=True))
    second = node.records_of(node.heartbeat(1, want_shut_down=True))

    assert first == [
        partition_change(node, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]),
        change(node, 1, in_controlled_shutdown=1),
    ]
    assert second == [change(node, fenced=1)]
    assert node.ask(node.heartbeat(1, want_shut_down=True)).should_shut_down


def test_cleanly_stopped_broker_is_elected_again_without_loss(node: Any) -> None:
    node.create_topic("t")
    for _ in range(2):
        node.ask(node.heartbeat(1, want_shut_down=True))
    node.ask(node.registration(1, previous_broker_epoch=node.epoch_of(1)))

    records = node.records_of(node.heartbeat(1))

    assert records == [
        change(node, fenced=-1),
        partition_change(node, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]),
    ]
    assert (partition(node).leader_epoch, partition(node).leader_recovery_state) == (2, 0)


def test_crashed_broker_is_elected_again_as_the_last_known_leader(node: Any) -> None:
    node.create_topic("t")
    node.clock.advance(SESSION_MS)
    node.controller.tick(node.clock.monotonic_ms())
    node.commit()

    registered = node.records_of(node.registration(1))
    unfenced = node.records_of(node.heartbeat(1))

    assert registered[:-1] == [partition_change(node, eligible_leader_replicas=[])]
    assert isinstance(registered[-1].message, log.RegisterBrokerRecord)
    assert unfenced == [
        change(node, fenced=-1),
        partition_change(node, isr=[1], leader=1, leader_recovery_state=1, last_known_elr=[]),
    ]


def test_leaders_move_to_an_in_sync_replica_when_their_broker_is_fenced(node: Any) -> None:
    node.add_brokers(2, 3)
    node.create_topic("t", partitions=3, replicas=3)

    node.ask(node.heartbeat(1, want_fence=True))

    for each in node.image.topics.by_name["t"].partitions.values():
        assert 1 not in each.isr
        assert each.leader in each.isr


def test_failed_directory_removes_its_replicas_from_the_isr(node: Any) -> None:
    node.create_topic("t")
    directory = node.image.cluster.brokers[1].directories[0]

    node.ask(node.heartbeat(1, offline_log_dirs=[directory]))

    assert partition(node).leader == -1


def test_last_known_leader_with_a_new_disk_is_elected_once_its_directory_is_known(node: Any) -> None:
    """Found by the simulator (seed 5096): it led only after the next change of a broker."""
    node.create_topic("t")
    node.clock.advance(SESSION_MS)
    node.controller.tick(node.clock.monotonic_ms())
    node.commit()
    new = Uuid(b"n" * 16)
    node.ask(node.registration(1, log_dirs=[new]))
    node.ask(node.heartbeat(1))
    before = partition(node).leader

    assert node.put("t", 1, new) == ErrorCode.NONE

    assert (before, partition(node).leader, partition(node).directories) == (-1, 1, (new,))


def test_without_eligible_leader_replicas_the_last_in_sync_replica_stays(new_controller: Callable[..., Any]) -> None:
    node = new_controller(features={"eligible.leader.replicas.version": 0})
    node.add_brokers(1)
    node.create_topic("t")

    node.ask(node.heartbeat(1, want_fence=True))
    fenced = partition(node)
    node.ask(node.heartbeat(1))

    assert (fenced.leader, fenced.isr, fenced.elr) == (-1, (1,), ())
    assert (partition(node).leader, partition(node).leader_recovery_state) == (1, 0)


def test_unregistered_broker_is_removed_from_the_image(node: Any) -> None:
    node.add_brokers(2)
    node.create_topic("t", replicas=2)

    assert node.ask(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.NONE
    assert sorted(node.image.cluster.brokers) == [1]
    assert partition(node).isr == (1,)


def test_unregistering_an_unknown_broker_is_rejected(node: Any) -> None:
    response = node.ask(UnregisterBrokerRequest(broker_id=9))

    assert (response.error_code, response.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 9 is not currently registered",
    )
