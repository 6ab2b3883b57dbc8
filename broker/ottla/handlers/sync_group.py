"""SyncGroup (api key 14, v0-v5): the leader sends assignments; every member receives its own.

v1 throttle time; v3 group instance id (KIP-345); v4 flexible; v5 protocol type and name, which the client must give
(KIP-559). Source: SyncGroupRequest.json; KafkaApis.handleSyncGroupRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_VERSION_WITH_PROTOCOL = 5


@serves(api_key=14, versions=range(0, 6))
def sync_group(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Delayed[SyncGroupResponse]:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _FIRST_VERSION_WITH_PROTOCOL and not names_protocol:
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    context.require_on_group(Operation.READ, request.group_id)
    return context.services.groups.sync_group(request)
