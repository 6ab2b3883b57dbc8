"""Defects that seeds have found, as scenarios: each was a failing run first."""

import errno

import pytest

from ottla.errors import ErrorCode, StorageError
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.invariants.ledger import PartitionKey
from ottla.simulator.invariants.log_start_invariants import FollowersKnowLess
from ottla.simulator.invariants.permission_invariants import denial
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.runs.simulation import EVERY_INVARIANT, Simulation
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_node import World
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.records import Record, build_batch


class KeepsNothing(SeededRandom):
    """A power cut loses all unsynced data."""

    def randrange(self, stop: int) -> int:
        return 0


def registration(cluster: Cluster, partition: TopicPartition) -> PartitionRegistration:
    """Return the newest metadata of any node: that of a node that has just started is empty."""
    processes = [place.process for place in cluster.nodes.values() if place.process is not None]
    found = max(processes, key=lambda process: process.metadata.offset).metadata.partition(partition)
    assert found is not None
    return found


def test_restarted_leader_with_a_torn_log_does_not_truncate_its_followers() -> None:
    """Seed 19: its old metadata said that it leads, in the same epoch; the others truncated to its torn log."""
    cluster = Cluster(seed=3)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run(1_000)
    partitions = [TopicPartition("t", index) for index in range(3)]
    led = next(each for each in partitions if registration(cluster, each).leader != cluster.leader_id())
    leader = registration(cluster, led).leader
    client = cluster.connect(leader)
    values = [b"%d" % index for index in range(10)]
    for value in values:
        response = produce(client, "t", batch_of(client, [value]), partition=led.partition, acks=-1)
        assert response.error_code == ErrorCode.NONE

    cluster.cut_power(leader, KeepsNothing(1))
    cluster.start(leader)
    cluster.run_until(lambda: registration(cluster, led).leader != leader)
    cluster.run_until(lambda: len(registration(cluster, led).isr) == 3)

    client = cluster.connect(registration(cluster, led).leader)
    kept = records_in(fetch(client, "t", 0, partition=led.partition))
    assert [record.value for record in kept] == values


def test_disk_failure_while_logs_are_loaded_is_the_reported_reason() -> None:
    """Seed 31: the node reported the failure to parts that it had not created yet."""
    world = World()
    running = world.start_node()
    create_topic(running.connect(), "t")
    running.run_until(lambda: world.disk.exists("/data/t-0"))
    world.disk.kill()
    world.disk.fail_next("list", errno.EIO, path_part="/data", skip=1)

    with pytest.raises(StorageError, match="/data"):
        world.start_node()


def test_replica_in_an_offline_directory_is_not_recreated_in_another() -> None:
    """Seed 48, with several log directories: the new log was empty, and led; acknowledged records were lost."""
    cluster = Cluster(seed=3, brokers=1, overrides={"log.dirs": "/data,/data2", "offsets.topic.num.partitions": "1"})
    place = cluster.nodes[1]
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=2)
    cluster.run(1_000)
    away = next(index for index in range(2) if place.disk.exists(f"/data2/t-{index}"))
    client = cluster.connect(1)
    assert produce(client, "t", batch_of(client, [b"kept"]), partition=away, acks=-1).error_code == ErrorCode.NONE

    cluster.kill(1)
    place.disk.break_directory("/data2")
    cluster.start()
    cluster.run_until(lambda: place.is_ready)
    cluster.run(2_000)
    assert not registration(cluster, TopicPartition("t", away)).has_leader
    assert registration(cluster, TopicPartition("t", 1 - away)).has_leader

    cluster.kill(1)
    place.disk.repair_directories()
    cluster.start()
    cluster.run_until(lambda: place.is_ready)
    cluster.run_until(lambda: registration(cluster, TopicPartition("t", away)).has_leader)
    kept = records_in(fetch(cluster.connect(1), "t", 0, partition=away))
    assert [record.value for record in kept] == [b"kept"]


def test_records_acknowledged_and_deleted_between_observations_are_in_the_ledger() -> None:
    """Seed 234: a Produce came late, its record was older than retention.ms, and was deleted in the same tick."""
    cluster = Cluster(seed=3, brokers=1, overrides={"log.retention.check.interval.ms": "1000"})
    state_observer = StateObserver(cluster)
    state_observer.invariants = [invariant(state_observer) for invariant in EVERY_INVARIANT]
    cluster.before_start = state_observer.before_start
    cluster.on_event = state_observer.observe_node
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", retention_ms="4000")
    cluster.run_until(lambda: "t" in state_observer.image.topics.by_name)
    client = cluster.connect(1)
    key = PartitionKey("t", state_observer.image.topics.by_name["t"].topic_id, 0)
    assert produce(client, "t", batch_of(client, [b"seen"]), acks=-1).error_code == ErrorCode.NONE
    cluster.run(500)

    cluster.on_event = lambda place: None
    late = build_batch([Record(0, cluster.clock.wall_ms() - 5_000, None, b"late")])
    offset = produce(client, "t", late, acks=-1).base_offset
    cluster.run(5_000)
    assert cluster.nodes[1].node.replicas.get("t", 0).log.log_start_offset == 2
    state_observer.acknowledged(key, offset, [b"late"])
    cluster.on_event = state_observer.observe_node
    assert produce(client, "t", batch_of(client, [b"next"]), acks=-1).error_code == ErrorCode.NONE
    cluster.run(500)

    ledger = state_observer.ledger.partition(key)
    assert (ledger.values, ledger.deleted_to) == ([b"seen", b"late", b"next"], 2)


def test_lost_records_of_a_returning_replica_do_not_count_as_committed() -> None:
    """Seeds 166445752 and 4010: a former leader returned with its old high watermark, and had not truncated yet."""
    cluster = Cluster(seed=3)
    state_observer = StateObserver(cluster)
    state_observer.invariants = [invariant(state_observer) for invariant in EVERY_INVARIANT]
    cluster.before_start = state_observer.before_start
    cluster.on_event = state_observer.observe_node
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", replicas=3, min_insync_replicas="1")
    cluster.run_until(lambda: "t" in state_observer.image.topics.by_name)
    partition = TopicPartition("t", 0)
    former = registration(cluster, partition).leader
    client = cluster.connect(former)
    for value in (b"lost", b"as well"):
        assert produce(client, "t", batch_of(client, [value]), acks=-1).error_code == ErrorCode.NONE
    cluster.stop(former)
    others = [each for each in registration(cluster, partition).replicas if each != former]
    cluster.run_until(lambda: sorted(registration(cluster, partition).isr) == sorted(others))
    for node_id in others:
        cluster.cut_power(node_id, KeepsNothing(1))
        state_observer.note_data_loss(node_id)
    cluster.start(*others)
    ledger = state_observer.ledger.partition(PartitionKey("t", state_observer.image.topics.by_name["t"].topic_id, 0))
    cluster.run_until(lambda: ledger.is_excused and ledger.end == 0)
    ends = []

    def look(place: SimulatedNode) -> None:
        state_observer.observe_node(place)
        ends.append(ledger.end)

    cluster.on_event = look
    cluster.start(former)
    cluster.run_until(lambda: former in registration(cluster, partition).isr)

    assert max(ends) == 0


def test_denial_that_arrives_after_the_faults_have_stopped_is_removed() -> None:
    """Seed 315: it was requested before, and kept in the network; nothing was denied yet when the faults stopped."""
    simulation = Simulation(3, faulty=False)
    assert simulation.plan.denies
    simulation.form()
    late = denial(simulation.plan.topics[0].name, Operation.WRITE)

    simulation._permit()
    simulation._administrator.add_acls([late])
    simulation.cluster.run_until(lambda: not simulation._is_all_permitted())

    simulation.cluster.run_until(simulation._is_all_permitted)


def test_completed_sync_does_not_reach_a_process_that_was_killed_while_frozen() -> None:
    """Seed 800000363: the dead process requested votes, and wrote over the successor's quorum-state."""
    cluster = Cluster(seed=3)
    cluster.start()
    cluster.run_until_ready()
    place = cluster.nodes[1]
    file = place.disk.open("/data/file", create=True)
    completed: list[object] = []
    place.disk.sync_later([file], completed.append)
    cluster.freeze(1)
    cluster.run(1_000)

    cluster.kill(1)
    cluster.run(1_000)

    assert completed == []


def test_leader_that_ends_before_it_is_observed_has_led_its_followers() -> None:
    """Seed 940000093: the leader served a follower and stopped in the same event, which the ledger did not learn."""
    cluster = Cluster(seed=1)
    observer = StateObserver(cluster)
    observer.invariants = [FollowersKnowLess(observer)]
    cluster.before_start, cluster.on_event = observer.before_start, observer.observe_node
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", replicas=3)
    cluster.run(1_000)
    partition = TopicPartition("t", 0)
    leader = registration(cluster, partition).leader

    cluster.on_event = lambda place: None if place.node_id == leader else observer.observe_node(place)
    client = cluster.connect(leader)
    assert produce(client, "t", batch_of(client, [b"a"]), acks=-1).error_code == ErrorCode.NONE
    followers = [place.node.replicas.get(*partition) for place in cluster.nodes.values() if place.node_id != leader]
    cluster.run_until(lambda: all(follower.log.high_watermark == 1 for follower in followers))

    topic_id = observer.image.topics.by_name["t"].topic_id
    assert observer.ledger.partition(PartitionKey("t", topic_id, 0)).led_to == 1


def test_replica_in_a_failed_directory_does_not_rejoin_the_isr() -> None:
    """Found with a real disk: its leader had heard its last fetch within a second, and proposed it at once.

    The broker is alive and fetches other partitions, so that commits waited for replica.lag.time.max.ms.
    """
    cluster = Cluster(seed=3, overrides={"log.dirs": "/data,/data2"})
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=6, replicas=3)
    cluster.run(5_000)
    partitions = [TopicPartition("t", index) for index in range(6)]
    place = cluster.nodes[2]
    lost = [each for each in partitions if place.disk.exists(f"/data2/t-{each.partition}")]
    followed = [each for each in lost if registration(cluster, each).leader != 2]
    assert followed
    assert len(followed) < len(lost)

    place.disk.break_directory("/data2")
    for each in followed:
        leader = cluster.connect(registration(cluster, each).leader)
        assert produce(leader, "t", batch_of(leader, [b"v"]), partition=each.partition, acks=1).error_code == 0
    failed_ms = cluster.clock.monotonic_ms()
    cluster.run_until(lambda: all(2 not in registration(cluster, each).isr for each in lost))

    assert cluster.clock.monotonic_ms() - failed_ms < 100
    for _ in range(500):
        cluster.run(10)
        assert all(2 not in registration(cluster, each).isr for each in lost)
    assert place.is_ready
    assert all(2 in registration(cluster, each).isr for each in partitions if each not in lost)
