"""JoinGroup (api key 11, v0-v9): join a classic group, or its next generation. The response waits for the join phase.

v1 rebalance timeout (KIP-62); v4 a new member receives its id first (KIP-394); v5 group instance id (KIP-345);
v6 flexible; v7 protocol type in the response; v8 reason (KIP-800); v9 skip assignment (KIP-814).
Source: JoinGroupRequest.json; GroupCoordinatorService.joinGroup of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_NULL_PROTOCOL_NAME = 7


@serves(api_key=11, versions=range(0, 10))
def join_group(context: RequestContext, request: JoinGroupRequest) -> Steps[HandlerResult]:
    """Forward to the coordinator; adapt the response for old versions."""
    if context.api_version < _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        request.rebalance_timeout_ms = request.session_timeout_ms
    if not context.may_on_group(Operation.READ, request.group_id):
        return _error_response(context)
    subscription = yield from context.services.groups.prepare_join(request)
    client = Client(client_id=context.client_id or "", host=f"/{context.connection.host}")
    response = context.services.groups.join_group(client, context.api_version, request, subscription)
    if context.api_version >= _FIRST_VERSION_WITH_NULL_PROTOCOL_NAME:
        return response
    return response.then(_without_null)


def _error_response(context: RequestContext) -> JoinGroupResponse:
    rejected = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=None)
    return rejected if context.api_version >= _FIRST_VERSION_WITH_NULL_PROTOCOL_NAME else _without_null(rejected)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    if response.protocol_name is None:
        response.protocol_name = ""
    return response
