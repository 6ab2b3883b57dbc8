"""DescribeTopicPartitions (api key 75, v0): topics page by page, with their eligible leader replicas (KIP-966).

Topics come sorted by name; a page ends after ``response_partition_limit`` partitions, and ``next_cursor`` is the
start of the next one. Without topics in the request, all topics are listed.

Source: DescribeTopicPartitionsRequestHandler and KRaftMetadataCache of Apache Kafka 4.3.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Set
from functools import partial

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.permissions import authorized_operations
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.metadata.topics import PartitionRegistration
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, map_in_steps, sorted_in_steps, split_in_steps, unique_in_steps
from ottla.types import INTERNAL_TOPICS, NodeId
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@serves(api_key=75, versions=range(0, 1))
def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """Fill one page."""
    image = context.services.metadata.image
    requested = yield from unique_in_steps(topic.name for topic in request.topics)
    wanted: Collection[str] = requested or image.topics.by_name.keys()
    names, hidden = yield from split_in_steps(
        (yield from sorted_in_steps(list(wanted))),
        lambda name: context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name),
    )
    first_partition = 0
    if request.cursor is not None:
        cursor = request.cursor
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in wanted):
            return DescribeTopicPartitionsResponse(topics=(yield from map_in_steps(_invalid_request, requested)))
        names = names[bisect_left(names, cursor.topic_name) :]
        hidden = hidden[bisect_left(hidden, cursor.topic_name) :]
        if names and names[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    limit = min(context.services.config.max_request_partition_size_limit, max(request.response_partition_limit, 1))
    response = yield from _page(context, image, names, first_partition, limit)
    if request.topics:
        response.topics += yield from map_in_steps(_hidden, hidden)
    return response


def _page(
    context: RequestContext, image: MetadataImage, names: list[str], first_partition: int, limit: int
) -> Steps[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    online = {broker_id for broker_id, broker in image.cluster.brokers.items() if not broker.is_fenced}
    left = limit
    for number, name in enumerate(names, 1):
        if number % ITEMS_PER_STEP == 0:
            yield None
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_missing(context, name))
            first_partition = 0
            continue
        if left == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        numbers = sorted(topic.partitions)[first_partition:]
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=(
                    yield from map_in_steps(partial(_partition, online, topic.partitions), numbers[:left], per_step=32)
                ),
                topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
            )
        )
        if len(numbers) > left:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=numbers[left])
            break
        left -= len(numbers)
        first_partition = 0
    return response


def _partition(
    online: Set[NodeId], partitions: Mapping[int, PartitionRegistration], number: int
) -> DescribeTopicPartitionsResponsePartition:
    partition = partitions[number]
    has_leader = partition.leader in online
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[replica for replica in partition.replicas if replica not in online],
    )


def _missing(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = invalid_topic_name_reason(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _invalid_request(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
