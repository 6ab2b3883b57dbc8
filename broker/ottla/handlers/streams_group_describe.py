"""StreamsGroupDescribe (api key 89, v0): state, epochs, topology, members and tasks of streams groups (KIP-1071).

Source: StreamsGroupDescribeRequest.json; KafkaApis.handleStreamsGroupDescribe of Apache Kafka 4.3.
"""

from typing import Final

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_streams_protocol_enabled
from ottla.handlers.hidden_topics import has_hidden_topic
from ottla.handlers.permissions import authorized_operations
from ottla.handlers.streams_topics import topics_of
from ottla.purgatory.steps import Steps, map_in_steps, split_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

_HIDDEN_TOPIC: Final = "The described group uses topics that the client is not authorized to describe."


@serves(api_key=89, versions=range(0, 1))
def streams_group_describe(context: RequestContext, request: StreamsGroupDescribeRequest) -> Steps[HandlerResult]:
    """Describe each group; unauthorized groups come first, as in Kafka."""
    if not is_streams_protocol_enabled(context):
        groups = yield from map_in_steps(_unsupported, request.group_ids)
        return StreamsGroupDescribeResponse(groups=groups)
    allowed, hidden = yield from split_in_steps(
        request.group_ids, lambda group: context.may_on_group(Operation.DESCRIBE, group)
    )
    described = yield from map_in_steps(_hidden, hidden)
    for group_id in allowed:
        group = yield from context.services.groups.streams.describe_group(group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        subtopologies = (group.topology.subtopologies if group.topology is not None else None) or []
        if (yield from has_hidden_topic(context, subtopologies, topics_of)):
            group = DescribedGroup(
                group_id=group_id,
                error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=_HIDDEN_TOPIC,
            )
        described.append(group)
        yield None
    return StreamsGroupDescribeResponse(groups=described)


def _hidden(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))


def _unsupported(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.UNSUPPORTED_VERSION))
