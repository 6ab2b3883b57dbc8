"""Requests of another cluster or about another topic are rejected, and replicas in another cluster's quorum stop."""

import logging
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.raft.records import LeaderAndEpoch
from ottla.raft.requests import (
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    vote_request,
)
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.types import OffsetAndEpoch


def requests(replica: SimulatedReplica, cluster_id: str) -> list[Any]:
    client, key = replica.client, replica.key
    log_end = OffsetAndEpoch(0, 0)
    return [
        client.handle_vote(
            vote_request(cluster_id=cluster_id, voter=key, candidate=key, epoch=9, log_end=log_end, is_pre_vote=False)
        ),
        client.handle_begin_quorum_epoch(
            begin_quorum_epoch_request(cluster_id=cluster_id, voter=key, leader=LeaderAndEpoch(1, 9), listeners={})
        ),
        client.handle_end_quorum_epoch(
            end_quorum_epoch_request(cluster_id=cluster_id, leader_id=1, epoch=9, preferred_successors=[], listeners={})
        ),
        client.handle_fetch(
            fetch_request(
                cluster_id=cluster_id, replica=key, epoch=1, log_end=log_end, log_start_offset=0, high_watermark=0
            )
        ),
        client.handle_fetch_snapshot(
            fetch_snapshot_request(cluster_id=cluster_id, replica=key, epoch=1, snapshot_id=log_end, position=0)
        ),
    ]


def test_requests_of_another_cluster_are_rejected_and_logged_once(
    leader: SimulatedReplica, caplog: pytest.LogCaptureFixture
) -> None:
    state = leader.client.state

    responses = requests(leader, "somebody-else")

    assert {response.error_code for response in responses} == {ErrorCode.INCONSISTENT_CLUSTER_ID}
    assert leader.client.state is state
    lines = [record.message for record in caplog.records if "somebody-else" in record.message]
    assert len(lines) == 1
    assert CLUSTER_ID in lines[0]


def test_requests_about_other_topics_are_rejected(leader: SimulatedReplica) -> None:
    request = vote_request(
        cluster_id=CLUSTER_ID,
        voter=leader.key,
        candidate=leader.key,
        epoch=9,
        log_end=OffsetAndEpoch(0, 0),
        is_pre_vote=False,
    )
    request.topics[0].topic_name = "flights"

    assert leader.client.handle_vote(request).error_code == ErrorCode.INVALID_REQUEST


def test_node_of_another_cluster_logs_the_remedy_once(
    quorum: SimulatedQuorum, follower: SimulatedReplica, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    lines_max = 2 * 3  # one for each of the two others and each kind of request
    quorum.kill(follower.node_id)
    follower.cluster_id = "somebody-else"

    follower.start()
    quorum.run(10_000)

    lines = [record.message for record in caplog.records if "belongs to another cluster" in record.message]
    assert 1 <= len(lines) <= lines_max
    assert "controller.quorum.bootstrap.servers" in lines[0]
    assert follower.next_offset == 0


@pytest.fixture
def notified(follower: SimulatedReplica) -> list[str]:
    """Ids of the replicas that were notified that they are in another cluster's quorum."""
    notified: list[str] = []
    for replica in follower.quorum.replicas.values():
        name = str(replica.node_id)
        replica.on_other_cluster = lambda name=name: notified.append(name)  # type: ignore[misc]
    return notified


def test_voter_in_another_cluster_than_most_peers_stops_and_the_others_continue(
    quorum: SimulatedQuorum, follower: SimulatedReplica, notified: list[str]
) -> None:
    for replica in quorum.running():
        quorum.kill(replica.node_id)
    follower.cluster_id = "somebody-else"

    quorum.start_all()
    quorum.run_until(lambda: bool(notified) and quorum.has_working_leader())

    assert notified == [str(follower.node_id)]


@pytest.mark.parametrize("strangers", [1, 2], ids=["most-are-its-own", "most-are-strangers"])
def test_observer_stops_at_once_if_most_controllers_are_of_another_cluster(strangers: int) -> None:
    quorum = SimulatedQuorum(1, voters=3, observers=1)
    observer = quorum.replicas[4]
    notified: list[int] = []
    observer.on_other_cluster = lambda: notified.append(quorum.clock.monotonic_ms())
    for node_id in range(1, 1 + strangers):
        quorum.replicas[node_id].cluster_id = "somebody-else"
    quorum.replicas[3].start()
    for node_id in range(1, 1 + strangers):
        quorum.replicas[node_id].start()

    start_ms = quorum.clock.monotonic_ms()
    observer.start()
    quorum.run(5_000)

    assert bool(notified) == (strangers == 2)
    assert all(at_ms - start_ms < 1_000 for at_ms in notified)


def test_replica_with_a_high_watermark_ignores_peers_of_another_cluster(
    quorum: SimulatedQuorum, follower: SimulatedReplica, notified: list[str]
) -> None:
    quorum.kill(follower.node_id)
    follower.start()
    quorum.run_until(lambda: follower.client.high_watermark is not None)
    for other in quorum.running():
        if other is not follower:
            quorum.kill(other.node_id)
            other.cluster_id = "somebody-else"
            other.start()
    quorum.run(5_000)

    assert str(follower.node_id) not in notified
