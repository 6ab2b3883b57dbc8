"""ListPartitionReassignments (api key 46, v0): the moves of replicas that are under way (KIP-455).

Not done: authorization. Source: ListPartitionReassignmentsRequest.json; ReplicationControlManager of Kafka 4.3.
"""

from collections.abc import Iterable

from ottla.handlers.api import RequestContext, serves
from ottla.metadata.topics import TopicImage
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@serves(api_key=46, versions=range(0, 1))
def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Look through the topics that are asked for, or all."""
    by_name = context.services.metadata.image.topics.by_name
    wanted: list[tuple[TopicImage, Iterable[int]]]
    if request.topics is None:
        wanted = [(topic, sorted(topic.partitions)) for _, topic in sorted(by_name.items())]
    else:
        wanted = [(by_name[each.name], each.partition_indexes) for each in request.topics if each.name in by_name]
    moving = [(topic, _moving(topic, partitions)) for topic, partitions in wanted]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=topic.name, partitions=moves) for topic, moves in moving if moves],
    )


def _moving(topic: TopicImage, partitions: Iterable[int]) -> list[OngoingPartitionReassignment]:
    found = [(number, topic.partitions.get(number)) for number in partitions]
    return [
        OngoingPartitionReassignment(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for number, partition in found
        if partition is not None and partition.is_reassigning
    ]
