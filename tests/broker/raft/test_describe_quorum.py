"""DescribeQuorum: voters and observers with their offsets and times, and the leader to query otherwise."""

from ottla.errors import ErrorCode
from ottla.raft.describe_quorum import describe_quorum
from ottla.simulator.runs.quorum.replica import endpoint_of
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.types import CLUSTER_METADATA_TOPIC, ZERO_UUID
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)

REQUEST = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
)


def new_quorum() -> SimulatedQuorum:
    quorum = SimulatedQuorum(2, voters=3, observers=1)
    quorum.start_all()
    quorum.run_until(quorum.has_working_leader)
    quorum.run(3_000)
    return quorum


def test_leader_describes_all_voters_and_observers() -> None:
    quorum = new_quorum()
    leader = quorum.leader()
    assert leader is not None
    quiet = next(each for each in quorum.running() if each is not leader)
    quorum.kill(quiet.node_id)
    quorum.append()
    quorum.run(1_200)

    response = describe_quorum(leader.client, REQUEST, clock=quorum.clock)

    described = response.topics[0].partitions[0]
    now_ms = quorum.clock.wall_ms()
    assert [state.replica_id for state in described.observers] == [4]
    voters = {state.replica_id: state for state in described.current_voters}
    assert sorted(voters) == [1, 2, 3]
    assert all(state.replica_directory_id != ZERO_UUID for state in voters.values())
    assert voters[leader.node_id].last_fetch_timestamp == now_ms
    assert voters[leader.node_id].log_end_offset == leader.client.log_end_offset
    assert voters[quiet.node_id].log_end_offset < leader.client.log_end_offset
    assert 1_200 <= now_ms - voters[quiet.node_id].last_fetch_timestamp < 1_800
    assert now_ms - described.observers[0].last_caught_up_timestamp < 600
    assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
        (each, endpoint_of(each).host) for each in (1, 2, 3)
    ]


def test_voter_that_never_fetched_has_no_timestamps() -> None:
    quorum = SimulatedQuorum(2, voters=3)
    quorum.start_all([1, 2])
    quorum.run_until(quorum.has_working_leader)
    leader = quorum.leader()
    assert leader is not None

    described = describe_quorum(leader.client, REQUEST, clock=quorum.clock).topics[0].partitions[0]

    absent = next(state for state in described.current_voters if state.replica_id == 3)
    assert (absent.log_end_offset, absent.last_fetch_timestamp, absent.last_caught_up_timestamp) == (-1, -1, -1)


def test_follower_response_names_the_leader() -> None:
    quorum = new_quorum()
    leader = quorum.leader()
    assert leader is not None
    follower = next(each for each in quorum.running() if each is not leader)

    described = describe_quorum(follower.client, REQUEST, clock=quorum.clock).topics[0].partitions[0]

    assert described.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert described.leader_id == leader.node_id


def test_old_versions_have_no_fields_for_directories() -> None:
    quorum = new_quorum()
    leader = quorum.leader()
    assert leader is not None

    response = describe_quorum(leader.client, REQUEST, clock=quorum.clock, with_directories=False)

    assert response.nodes == []
    assert {state.replica_directory_id for state in response.topics[0].partitions[0].current_voters} == {ZERO_UUID}
