"""DescribeShareGroupOffsets (api key 90, v0-v1): start offsets of share groups (KIP-932).

v1 the lag (KIP-1226): records from the start offset to the end of the partition, without those delivered completely.
Source: DescribeShareGroupOffsetsRequest.json; KafkaApis.handleDescribeShareGroupOffsetsRequest of Apache Kafka 4.3.
"""

from ottla.errors import MESSAGES, ErrorCode
from ottla.groups.share.offset_service import failed_description
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, split_in_steps
from ottla.share_state.persister import UNINITIALIZED_OFFSET
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


@serves(api_key=90, versions=range(0, 2))
def describe_share_group_offsets(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Steps[HandlerResult]:
    """Describe the partitions of each group that the client may see."""
    response = DescribeShareGroupOffsetsResponse()
    for group in request.groups:
        response.groups.append((yield from _describe(context, group)))
        yield None
    return response


def _describe(
    context: RequestContext, group: DescribeShareGroupOffsetsRequestGroup
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    if not is_share_protocol_enabled(context):
        return failed_description(group.group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.may_on_group(Operation.DESCRIBE, group.group_id):
        return failed_description(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    hidden: list[DescribeShareGroupOffsetsRequestTopic] = []
    is_for_all = group.topics is None
    if group.topics is not None:
        group.topics, hidden = yield from split_in_steps(
            group.topics, lambda topic: context.may_on_topic(Operation.DESCRIBE, topic.topic_name)
        )
    described = yield from context.services.groups.share_offsets.describe_offsets(group)
    if is_for_all:
        described.topics, _ = yield from split_in_steps(
            described.topics, lambda topic: context.may_on_topic(Operation.DESCRIBE, topic.topic_name)
        )
    for topic in hidden:
        described.topics.append((yield from _hidden(topic)))
    return described


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
    hidden = DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
    for number, index in enumerate(topic.partitions, 1):
        hidden.partitions.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=UNINITIALIZED_OFFSET,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=MESSAGES[ErrorCode.TOPIC_AUTHORIZATION_FAILED],
            )
        )
        if number % ITEMS_PER_STEP == 0:
            yield None
    return hidden
