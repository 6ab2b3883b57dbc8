"""StreamsGroupHeartbeat (api key 88, v0): join, stay in and leave a streams group (KIP-1071).

The internal topics that the group lacks are created on behalf of the client (`ottla.handlers.streams_topics`).
Source: StreamsGroupHeartbeatRequest.json; KafkaApis.handleStreamsGroupHeartbeat of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_streams_protocol_enabled
from ottla.handlers.streams_topics import check_topics, create_internal_topics
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


@serves(api_key=88, versions=range(0, 1))
def streams_group_heartbeat(context: RequestContext, request: StreamsGroupHeartbeatRequest) -> Steps[HandlerResult]:
    """Check the permissions on group and topics; forward to the coordinator; create the topics that the group lacks."""
    if not is_streams_protocol_enabled(context):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not context.may_on_group(Operation.READ, request.group_id):
        return _failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is not None:
        failed = yield from check_topics(context, request.topology)
        if failed is not None:
            return failed
    client = Client(client_id=context.client_id or "", host=f"/{context.connection.host}")
    result = yield from context.services.groups.streams.heartbeat(client, request)
    if result.topics_to_create:
        yield from create_internal_topics(context, result.response, result.topics_to_create)
    return result.response


def _failed(error: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=int(error))
