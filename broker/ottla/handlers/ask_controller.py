"""Passing a request on to the active controller, and letting the one on this node answer.

Source: KIP-590, KIP-919; ForwardingManager and ControllerApis of Apache Kafka 4.3.
"""

from functools import partial

from ottla.controller.channel import AnswerHere, Origin
from ottla.controller.error_response import error_response
from ottla.errors import KafkaError
from ottla.handlers.api import ListenerRole, RequestContext
from ottla.purgatory import Delayed
from ottla.wire.codec import Message


def ask_controller(context: RequestContext, request: Message, here: AnswerHere | None = None) -> Delayed[Message]:
    """Return the active controller's answer to what came in with ``context``.

    A broker's listener passes the request on, wherever the active controller is. A controller's listener answers
    NOT_CONTROLLER where its own is not the active one: whoever asks there looks for the active one itself.
    ``here`` answers, instead of the controller's decisions, where the active controller is on this node: there, and
    not on the way, it is decided what the client may do. What it raises is the error of the whole response.
    """
    channel = context.services.controller
    if here is not None:
        here = partial(_answer_here, here)
    if context.connection.role is ListenerRole.CONTROLLER:
        return (here or channel.decide_here)(request)
    origin = Origin(
        api_version=context.api_version,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
        principal=context.connection.principal,
        client_host=context.connection.peer.host,
    )
    return channel.forward(request, origin, here)


def _answer_here(here: AnswerHere, request: Message) -> Delayed[Message]:
    try:
        return here(request)
    except KafkaError as error:
        return Delayed.of(error_response(request, error))
