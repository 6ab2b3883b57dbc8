"""Heartbeat (api key 12, v0-v4): a member of a classic group renews its session.

v1 throttle time; v3 group instance id (KIP-345); v4 flexible.
Source: HeartbeatRequest.json; GroupCoordinatorService.heartbeat of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@serves(api_key=12, versions=range(0, 5))
def heartbeat(context: RequestContext, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
    context.require_on_group(Operation.READ, request.group_id)
    return context.services.groups.heartbeat(request)
