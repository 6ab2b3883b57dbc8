"""StreamsGroupDescribe (api key 89, v0): state, epochs, topology, members and tasks of streams groups (KIP-1071).

Source: StreamsGroupDescribeRequest.json; KafkaApis.handleStreamsGroupDescribe of Apache Kafka 4.3.
"""

from typing import Final

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_descriptions import describe_groups_of_type
from ottla.handlers.group_protocols import is_streams_protocol_enabled
from ottla.handlers.hidden_topics import has_hidden_topic
from ottla.handlers.streams_topics import topics_of
from ottla.purgatory.steps import Steps
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
)

_HIDDEN_TOPIC: Final = "The described group uses topics that the client is not authorized to describe."


@serves(api_key=89, versions=range(0, 1))
def streams_group_describe(context: RequestContext, request: StreamsGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    groups = yield from describe_groups_of_type(
        context,
        request,
        DescribedGroup,
        is_enabled=is_streams_protocol_enabled(context),
        describe=context.services.groups.streams.describe_group,
        has_hidden_topic=lambda group: has_hidden_topic(context, _subtopologies(group), topics_of),
        hidden_topic_message=_HIDDEN_TOPIC,
    )
    return StreamsGroupDescribeResponse(groups=groups)


def _subtopologies(group: DescribedGroup) -> list[Subtopology]:
    return (group.topology.subtopologies if group.topology is not None else None) or []
