"""ShareGroupDescribe (api key 77, v1): state, epochs, members and assignments of share groups (KIP-932).

Source: ShareGroupDescribeRequest.json; KafkaApis.handleShareGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.handlers.hidden_topics import HIDDEN_TOPIC, has_hidden_topic
from ottla.handlers.permissions import authorized_operations
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@serves(api_key=77, versions=range(1, 2))
def share_group_describe(context: RequestContext, request: ShareGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    if not is_share_protocol_enabled(context):
        groups = yield from map_in_steps(_unsupported, request.group_ids)
        return ShareGroupDescribeResponse(groups=groups)
    allowed, hidden = yield from split_in_steps(
        request.group_ids, lambda group: context.may_on_group(Operation.DESCRIBE, group)
    )
    described = yield from map_in_steps(_hidden, hidden)
    for group_id in allowed:
        group = yield from context.services.groups.share.describe_group(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        if (yield from has_hidden_topic(context, group.members, _topics_of)):
            group = DescribedGroup(
                group_id=group_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=HIDDEN_TOPIC,
            )
        described.append(group)
        yield None
    return ShareGroupDescribeResponse(groups=described)


def _topics_of(member: Member) -> Iterator[str]:
    return (topic.topic_name for topic in member.assignment.topic_partitions)


def _hidden(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))


def _unsupported(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.UNSUPPORTED_VERSION))
