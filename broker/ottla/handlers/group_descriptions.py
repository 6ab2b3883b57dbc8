"""The common part of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: errors and permissions.

Source: KafkaApis.handleConsumerGroupDescribe, handleShareGroupDescribe, handleStreamsGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.permissions import authorized_operations
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

GroupT = TypeVar("GroupT", DescribedConsumerGroup, DescribedShareGroup, DescribedStreamsGroup)


def describe_groups_of_type(
    context: RequestContext,
    request: ConsumerGroupDescribeRequest | ShareGroupDescribeRequest | StreamsGroupDescribeRequest,
    group_type: type[GroupT],
    *,
    is_enabled: bool,
    describe: Callable[[str], Steps[GroupT]],
    has_hidden_topic: Callable[[GroupT], Steps[bool]],
    hidden_topic_message: str,
) -> Steps[list[GroupT]]:
    """Describe each group; unauthorized groups come first, as in Kafka.

    Args:
        context: of the request.
        request: one of the three.
        group_type: the struct of a group in the response.
        is_enabled: whether the protocol of the groups is; if not, each group has the error UNSUPPORTED_VERSION.
        describe: returns the group of an id, or its error.
        has_hidden_topic: returns whether the group has a topic that the client may not describe.
        hidden_topic_message: replaces the description of such a group.
    """
    if not is_enabled:
        return (yield from map_in_steps(_failing(group_type, ErrorCode.UNSUPPORTED_VERSION), request.group_ids))
    allowed, hidden = yield from split_in_steps(
        request.group_ids, lambda group: context.may_on_group(Operation.DESCRIBE, group)
    )
    described = yield from map_in_steps(_failing(group_type, ErrorCode.GROUP_AUTHORIZATION_FAILED), hidden)
    for group_id in allowed:
        group = yield from describe(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        if (yield from has_hidden_topic(group)):
            group = group_type(
                group_id=group_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=hidden_topic_message,
            )
        described.append(group)
        yield None
    return described


def _failing(group_type: type[GroupT], error: ErrorCode) -> Callable[[str], GroupT]:
    return lambda group_id: group_type(group_id=group_id, error_code=int(error))
