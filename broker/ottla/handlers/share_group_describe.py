"""ShareGroupDescribe (api key 77, v1): state, epochs, members and assignments of share groups (KIP-932).

Source: ShareGroupDescribeRequest.json; KafkaApis.handleShareGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_descriptions import describe_groups_of_type
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.handlers.hidden_topics import HIDDEN_TOPIC, has_hidden_topic
from ottla.purgatory.steps import Steps
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@serves(api_key=77, versions=range(1, 2))
def share_group_describe(context: RequestContext, request: ShareGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    groups = yield from describe_groups_of_type(
        context,
        request,
        DescribedGroup,
        is_enabled=is_share_protocol_enabled(context),
        describe=context.services.groups.share.describe_group,
        has_hidden_topic=lambda group: has_hidden_topic(context, group.members, _topics_of),
        hidden_topic_message=HIDDEN_TOPIC,
    )
    return ShareGroupDescribeResponse(groups=groups)


def _topics_of(member: Member) -> Iterator[str]:
    return (topic.topic_name for topic in member.assignment.topic_partitions)
