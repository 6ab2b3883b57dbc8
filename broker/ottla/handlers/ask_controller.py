"""Passing a request on to the active controller, and letting the one on this node answer.

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


def ask_controller(
    context: RequestContext,
    request: Message,
    here: LocalHandler | None = None,
    *,
    requires: Operation | None = None,
) -> Delayed[Message]:
    """Return the active controller's answer to what came in with ``context``.

    A broker's listener passes the request on, wherever the active controller is. A controller's listener answers
    NOT_CONTROLLER where its own is not the active one: whoever asks there looks for the active one itself.

    Args:
        context: of the request.
        request: to be answered.
        here: answers, instead of the controller's decisions, where the active controller is on this node: there, and
            not on the way, it is decided what the client may do. What it raises is the error of the whole response.
        requires: what the client must be allowed to do with the cluster.
    """
    channel = context.services.controller
    answer = partial(_answer_here, context, here or channel.handle_locally, requires)
    if context.connection.role is ListenerRole.CONTROLLER:
        return answer(request)
    origin = Origin(
        api_version=context.api_version,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
        principal=context.connection.principal,
        client_host=context.connection.host,
    )
    return channel.forward(request, origin, answer)


def _answer_here(
    context: RequestContext, answer: LocalHandler, requires: Operation | None, request: Message
) -> Delayed[Message]:
    try:
        if requires is not None:
            context.require_on_cluster(requires)
        return answer(request)
    except KafkaError as error:
        return Delayed.of(error_response(request, error))


def decide_mutations(context: RequestContext, request: Message, *, strict_since: int) -> Delayed[Message]:
    """Let this node's controller change topics as far as the client's quota goes; the answer says how long to wait.

    Args:
        context: of the request; of the one inside where it came in an Envelope.
        request: CreateTopics, CreatePartitions or DeleteTopics.
        strict_since: the first version whose clients know THROTTLING_QUOTA_EXCEEDED.
    """
    mutations = context.services.quotas.mutations(
        context.connection.principal, context.client_id, is_strict=context.api_version >= strict_since
    )
    decided = context.services.controller.handle_locally(request, mutations)
    return decided if mutations is None else decided.then(partial(_tell_throttle_time, mutations))


def decide_acls(context: RequestContext, request: Message) -> Delayed[Message]:
    """Let this node's controller add or remove entries.

    Raises:
        KafkaError: SECURITY_DISABLED: nobody would ask them; CLUSTER_AUTHORIZATION_FAILED.
    """
    if not context.services.authorizer.is_enabled:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    context.require_on_cluster(Operation.ALTER)
    return context.services.controller.handle_locally(request)


def _tell_throttle_time(mutations: Mutations, response: Message) -> Message:
    response.throttle_time_ms = mutations.throttle_ms()  # type: ignore[attr-defined]
    return response
