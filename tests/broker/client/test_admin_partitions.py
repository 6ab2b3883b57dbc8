"""Reassignments, elections and eligible leaders: requests and results of the admin client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin_partitions import ElectionType
from ottla.client.results import Reassignment
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

ResultT = TypeVar("ResultT")
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def call_admin(broker: Any, call: Callable[[AdminClient], Awaitable[ResultT]]) -> ResultT:
    """Run one call of an AdminClient against ``broker``."""

    async def run() -> ResultT:
        async with broker, AdminClient([broker.endpoint]) as admin:
            return await call(admin)

    return asyncio.run(run())


def page(first: int, *numbers: int, then: tuple[str, int] | None = None) -> DescribeTopicPartitionsResponse:
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            partition_index=number,
            leader_id=first,
            replica_nodes=[1, 2, 3],
            isr_nodes=[first],
            eligible_leader_replicas=[2],
            last_known_elr=[3],
        )
        for number in numbers
    ]
    cursor = then and DescribeTopicPartitionsResponseCursor(topic_name=then[0], partition_index=then[1])
    topic = DescribeTopicPartitionsResponseTopic(name="t", partitions=partitions)
    return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor or None)


class TestDescription:
    def test_eligible_leaders_are_returned(self, broker: Any) -> None:
        broker.scripts[DescribeTopicPartitionsRequest] = lambda _: page(1, 0)

        (partition,) = call_admin(broker, lambda admin: admin.describe_topic_partitions(["t"]))["t"].partitions

        assert (partition.isr, partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), (2,), (3,))
        assert (partition.is_under_replicated, partition.replicas[0]) == (True, 1)

    def test_pages_become_one_topic(self, broker: Any) -> None:
        def respond(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
            return page(1, 0, 1, then=("t", 2)) if request.cursor is None else page(1, request.cursor.partition_index)

        broker.scripts[DescribeTopicPartitionsRequest] = respond

        described = call_admin(broker, lambda admin: admin.describe_topic_partitions())

        assert [partition.partition for partition in described["t"].partitions] == [0, 1, 2]

    def test_missing_topic_is_absent(self, broker: Any) -> None:
        topic = DescribeTopicPartitionsResponseTopic(name="nope", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker.scripts[DescribeTopicPartitionsRequest] = lambda _: DescribeTopicPartitionsResponse(topics=[topic])

        assert call_admin(broker, lambda admin: admin.describe_topic_partitions(["nope"])) == {}

    def test_no_names_send_no_request(self, broker: Any) -> None:
        assert call_admin(broker, lambda admin: admin.describe_topic_partitions([])) == {}
        assert broker.requests == []


class TestReassignment:
    def test_targets_are_sent_by_topic_and_null_cancels_a_reassignment(self, broker: Any) -> None:
        broker.scripts[AlterPartitionReassignmentsRequest] = lambda _: AlterPartitionReassignmentsResponse()

        errors = call_admin(broker, lambda admin: admin.alter_partition_reassignments({T0: [2, 3], U0: None, T1: [1]}))

        assert errors == {}
        (request,) = broker.sent(AlterPartitionReassignmentsRequest)
        sent = {
            (topic.name, entry.partition_index): entry.replicas
            for topic in request.topics
            for entry in topic.partitions
        }
        assert sent == {("t", 0): [2, 3], ("t", 1): [1], ("u", 0): None}

    def test_rejected_partitions_are_returned_with_their_error(self, broker: Any) -> None:
        entry = ReassignablePartitionResponse(partition_index=1, error_code=85, error_message="none")
        broker.scripts[AlterPartitionReassignmentsRequest] = lambda _: AlterPartitionReassignmentsResponse(
            responses=[ReassignableTopicResponse(name="t", partitions=[entry])]
        )

        errors = call_admin(broker, lambda admin: admin.alter_partition_reassignments({T1: None}))

        assert {partition: (error.code, error.message) for partition, error in errors.items()} == {
            T1: (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none")
        }

    def test_error_of_the_whole_request_is_raised(self, broker: Any) -> None:
        broker.scripts[AlterPartitionReassignmentsRequest] = lambda _: AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )

        with pytest.raises(KafkaError) as caught:
            call_admin(broker, lambda admin: admin.alter_partition_reassignments({T1: [1]}))

        assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def test_reassignments_in_progress_are_listed(self, broker: Any) -> None:
        entry = OngoingPartitionReassignment(
            partition_index=0, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
        )
        broker.scripts[ListPartitionReassignmentsRequest] = lambda _: ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name="t", partitions=[entry])]
        )

        moving = call_admin(broker, lambda admin: admin.list_partition_reassignments())

        assert moving == {T0: Reassignment(replicas=(3, 2, 1), adding=(3,), removing=(1,))}
        assert moving[T0].target == (3, 2)

    @pytest.mark.parametrize(
        ("partitions", "sent"),
        [
            pytest.param(None, None, id="all"),
            pytest.param([T0, U0, T1], [("t", [0, 1]), ("u", [0])], id="some"),
            pytest.param([], [], id="none"),
        ],
    )
    def test_some_reassignments_or_all_can_be_listed(self, broker: Any, partitions: Any, sent: Any) -> None:
        broker.scripts[ListPartitionReassignmentsRequest] = lambda _: ListPartitionReassignmentsResponse()

        call_admin(broker, lambda admin: admin.list_partition_reassignments(partitions))

        (request,) = broker.sent(ListPartitionReassignmentsRequest)
        topics = request.topics
        assert (None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics]) == sent


def test_election_returns_results_by_partition(broker: Any) -> None:
    results = [PartitionResult(partition_id=0), PartitionResult(partition_id=1, error_code=84, error_message="leads")]
    broker.scripts[ElectLeadersRequest] = lambda _: ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="t", partition_result=results)]
    )

    elected = call_admin(broker, lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, [T0, T1]))

    (request,) = broker.sent(ElectLeadersRequest)
    assert (request.election_type, request.topic_partitions[0].partitions) == (1, [0, 1])
    assert elected[T0] is None
    assert elected[T1] is not None
    assert elected[T1].code is ErrorCode.ELECTION_NOT_NEEDED
