"""ConsumerGroupDescribe (api key 69, v0-v1): state, epochs, members and assignments of consumer groups (KIP-848).

v1 the type of each member (KIP-1099).
Source: ConsumerGroupDescribeRequest.json; KafkaApis.handleConsumerGroupDescribe of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_descriptions import describe_groups_of_type
from ottla.handlers.group_protocols import is_consumer_protocol_enabled
from ottla.handlers.hidden_topics import HIDDEN_TOPIC, has_hidden_topic
from ottla.purgatory.steps import Steps
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)


@serves(api_key=69, versions=range(0, 2))
def consumer_group_describe(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    groups = yield from describe_groups_of_type(
        context,
        request,
        DescribedGroup,
        is_enabled=is_consumer_protocol_enabled(context),
        describe=context.services.groups.describe_consumer_group,
        has_hidden_topic=lambda group: has_hidden_topic(context, group.members, _topics_of),
        hidden_topic_message=HIDDEN_TOPIC,
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _topics_of(member: Member) -> Iterator[str]:
    for assignment in (member.assignment, member.target_assignment):
        for topic in assignment.topic_partitions:
            yield topic.topic_name
