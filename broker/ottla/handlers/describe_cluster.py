"""DescribeCluster (api key 60, v0-v2): the cluster's id, its brokers, and the node for admin requests.

v1 endpoint_type: 1 for brokers, 2 for controllers (KIP-919), only on a controller's listener; v2
fenced brokers too (KIP-1073).

Source: AuthHelper.computeDescribeClusterResponse of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import ListenerRole, RequestContext, serves
from ottla.handlers.permissions import authorized_on_cluster
from ottla.types import Endpoint
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2
_TYPE_NAMES = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


@serves(api_key=60, versions=range(0, 3))
def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """List the brokers, or on a controller's listener the controllers."""
    if context.connection.role is ListenerRole.CONTROLLER:
        context.require_on_cluster(Operation.ALTER)
    ours = _CONTROLLERS if context.connection.role is ListenerRole.CONTROLLER else _BROKERS
    wanted = request.endpoint_type
    if wanted not in _TYPE_NAMES:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {wanted}"
        )
    if wanted != ours:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"The request was sent to an endpoint of type {_TYPE_NAMES[ours]}, but we wanted an endpoint "
            f"of type {_TYPE_NAMES[wanted]}",
        )
    response = DescribeClusterResponse(
        endpoint_type=wanted,
        cluster_id=context.services.cluster_id,
        controller_id=_controller_id(context, wanted),
        brokers=_controllers(context) if wanted == _CONTROLLERS else _brokers(context, request.include_fenced_brokers),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_on_cluster(context)
    return response


def _controller_id(context: RequestContext, wanted: int) -> int:
    """Return the active controller, or for clients of brokers a broker that forwards requests to it: this one."""
    if wanted == _BROKERS:
        return context.services.config.node_id
    active = context.services.controller.active_controller_id
    return -1 if active is None else active


def _brokers(context: RequestContext, with_fenced: bool) -> list[DescribeClusterBroker]:
    described = []
    for broker_id, broker in sorted(context.services.metadata.image.cluster.brokers.items()):
        endpoint = advertised_endpoint(context, broker)
        if endpoint is not None and (with_fenced or not broker.is_fenced):
            described.append(_describe(broker_id, endpoint, broker.rack, is_fenced=broker.is_fenced))
    return described


def _controllers(context: RequestContext) -> list[DescribeClusterBroker]:
    described = []
    for controller_id, controller in sorted(context.services.metadata.image.cluster.controllers.items()):
        listener = controller.listeners.get(context.connection.listener)
        if listener is not None:
            described.append(_describe(controller_id, listener.endpoint, None, is_fenced=False))
    return described


def _describe(node_id: int, endpoint: Endpoint, rack: str | None, *, is_fenced: bool) -> DescribeClusterBroker:
    return DescribeClusterBroker(
        broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=rack, is_fenced=is_fenced
    )
