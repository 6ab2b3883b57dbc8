"""ShareGroupHeartbeat (api key 76, v1): join, stay in and leave a share group (KIP-932).

Source: ShareGroupHeartbeatRequest.json; KafkaApis.handleShareGroupHeartbeat of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.groups.share.service import error_response
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.handlers.hidden_topics import sorted_subscription
from ottla.handlers.share_member_ids import is_member_id_valid
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


@serves(api_key=76, versions=range(1, 2))
def share_group_heartbeat(context: RequestContext, request: ShareGroupHeartbeatRequest) -> Steps[HandlerResult]:
    """Check the permissions on group and topics; forward to the coordinator."""
    if not is_share_protocol_enabled(context):
        return error_response(ErrorCode.UNSUPPORTED_VERSION)
    if not context.may_on_group(Operation.READ, request.group_id):
        return error_response(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not is_member_id_valid(request.member_id):
        return error_response(ErrorCode.INVALID_REQUEST)
    if request.subscribed_topic_names:
        names = yield from sorted_subscription(context, request.subscribed_topic_names)
        if names is None:
            return error_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        request.subscribed_topic_names = names
    members = context.services.groups.share
    yield from members.prepare(request)
    client = Client(client_id=context.client_id or "", host=f"/{context.connection.host}")
    return members.heartbeat(client, request)
