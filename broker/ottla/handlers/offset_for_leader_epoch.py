"""OffsetForLeaderEpoch (api key 23, v2-v4): where a leader epoch ended, to find where two logs part.

v3 replica id; v4 flexible. Source: OffsetForLeaderEpochRequest.json; KIP-101, KIP-279, KIP-320.
"""

from ottla.errors import KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


@serves(api_key=23, versions=range(2, 5))
def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Ask each partition's leader epoch cache."""
    response = OffsetForLeaderEpochResponse()
    is_follower = context.would_be_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answer = EpochEndOffset(partition=wanted.partition)
            answers.append(answer)
            try:
                if not is_follower:
                    context.require_on_topic(Operation.DESCRIBE, topic.topic)
                partition = context.services.replicas.get(topic.topic, wanted.partition)
                partition.require_leadership(wanted.current_leader_epoch)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            end = partition.end_of_epoch(wanted.leader_epoch)
            answer.leader_epoch, answer.end_offset = end.epoch, end.offset
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return response
