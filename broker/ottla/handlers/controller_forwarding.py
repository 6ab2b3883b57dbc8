"""Forwarding of requests to the active controller, or handling by the controller on this node.

Source: KIP-590, KIP-919; ForwardingManager and ControllerApis of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import ListenerRole, RequestContext
from ottla.membership.controller_channel import LocalHandler, Origin
from ottla.purgatory import Delayed
from ottla.security.quotas.mutations import Mutations
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.error_response import error_response


def forward_to_controller(
    context: RequestContext,
    request: Message,
    here: LocalHandler | None = None,
    *,
    requires: Operation | None = None,
) -> Delayed[Message]:
    """Return the active controller's response to the request of ``context``.

    A broker's listener forwards the request to the active controller on any node. A controller's listener responds with
    NOT_CONTROLLER if its own controller is not the active one: its clients find the active controller themselves.

    Args:
        context: of the request.
        request: to be forwarded.
        here: handles the request, instead of the controller's own decision, if the active controller is on this node:
            the client is authorized there, not by forwarding nodes. An error raised is that of the whole response.
        requires: the operation on the cluster that the client must be allowed.
    """
    channel = context.services.controller
    handle = partial(_authorize_and_handle, context, here or channel.handle_locally, requires)
    if context.connection.role is ListenerRole.CONTROLLER:
        return handle(request)
    origin = Origin(
        api_version=context.api_version,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
        principal=context.connection.principal,
        client_host=context.connection.host,
        is_token_authenticated=context.connection.is_token_authenticated,
    )
    return channel.forward(request, origin, handle)


def _authorize_and_handle(
    context: RequestContext, handle: LocalHandler, requires: Operation | None, request: Message
) -> Delayed[Message]:
    try:
        if requires is not None:
            context.require_on_cluster(requires)
        return handle(request)
    except KafkaError as error:
        return Delayed.of(error_response(request, error))


def decide_mutations(context: RequestContext, request: Message, *, strict_since: int) -> Delayed[Message]:
    """Let this node's controller change topics within the client's mutation quota; the response has the throttle time.

    Args:
        context: of the request; of the inner request if it came in an Envelope.
        request: CreateTopics, CreatePartitions or DeleteTopics.
        strict_since: the first version whose clients know THROTTLING_QUOTA_EXCEEDED.
    """
    mutations = context.services.quotas.mutations(
        context.connection.principal, context.client_id, is_strict=context.api_version >= strict_since
    )
    decided = context.services.controller.handle_locally(request, mutations)
    return decided if mutations is None else decided.then(partial(_set_throttle_time, mutations))


def decide_acls(context: RequestContext, request: Message) -> Delayed[Message]:
    """Let this node's controller add or remove entries.

    Raises:
        KafkaError: SECURITY_DISABLED: there is no authorizer; CLUSTER_AUTHORIZATION_FAILED.
    """
    if not context.services.authorizer.is_enabled:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    context.require_on_cluster(Operation.ALTER)
    return context.services.controller.handle_locally(request)


def _set_throttle_time(mutations: Mutations, response: Message) -> Message:
    response.throttle_time_ms = mutations.throttle_ms()  # type: ignore[attr-defined]
    return response
