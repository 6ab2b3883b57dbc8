"""JoinGroup (api key 11, v0-v9): enter a classic group, or its next generation. Answered when the join phase ends.

v1 rebalance timeout (KIP-62); v4 a new member is given its id first (KIP-394); v5 group instance id (KIP-345);
v6 flexible; v7 protocol type in the answer; v8 reason (KIP-800); v9 skip assignment (KIP-814).
Source: JoinGroupRequest.json; GroupCoordinatorService.joinGroup of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.groups.client import Client
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_NULL_PROTOCOL_NAME = 7


@serves(api_key=11, versions=range(0, 10))
def join_group(context: RequestContext, request: JoinGroupRequest) -> Delayed[JoinGroupResponse]:
    """Ask the coordinator; fill in what old versions say otherwise."""
    if context.api_version < _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        request.rebalance_timeout_ms = request.session_timeout_ms
    if not context.may_on_group(Operation.READ, request.group_id):
        return Delayed.of(_refuse(context))
    client = Client(client_id=context.client_id or "", host=f"/{context.connection.host}")
    answer = context.services.groups.join_group(client, context.api_version, request)
    if context.api_version >= _FIRST_VERSION_WITH_NULL_PROTOCOL_NAME:
        return answer
    return answer.then(_without_null)


def _refuse(context: RequestContext) -> JoinGroupResponse:
    refused = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=None)
    return refused if context.api_version >= _FIRST_VERSION_WITH_NULL_PROTOCOL_NAME else _without_null(refused)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    if response.protocol_name is None:
        response.protocol_name = ""
    return response
