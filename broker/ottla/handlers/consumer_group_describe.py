"""ConsumerGroupDescribe (api key 69, v0-v1): state, epochs, members and assignments of consumer groups (KIP-848).

v1 the type of each member (KIP-1099).
Source: ConsumerGroupDescribeRequest.json; KafkaApis.handleConsumerGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_consumer_protocol_enabled
from ottla.handlers.hidden_topics import HIDDEN_TOPIC, has_hidden_topic
from ottla.handlers.permissions import authorized_operations
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)


@serves(api_key=69, versions=range(0, 2))
def consumer_group_describe(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    if not is_consumer_protocol_enabled(context):
        groups = yield from map_in_steps(_unsupported, request.group_ids)
        return ConsumerGroupDescribeResponse(groups=groups)
    allowed, hidden = yield from split_in_steps(
        request.group_ids, lambda group: context.may_on_group(Operation.DESCRIBE, group)
    )
    described = yield from map_in_steps(_hidden, hidden)
    for group_id in allowed:
        group = yield from context.services.groups.describe_consumer_group(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        if (yield from has_hidden_topic(context, group.members, _topics_of)):
            group = DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=HIDDEN_TOPIC,
            )
        described.append(group)
        yield None
    return ConsumerGroupDescribeResponse(groups=described)


def _topics_of(member: Member) -> Iterator[str]:
    for assignment in (member.assignment, member.target_assignment):
        for topic in assignment.topic_partitions:
            yield topic.topic_name


def _hidden(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _unsupported(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
