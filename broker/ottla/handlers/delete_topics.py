"""DeleteTopics (api key 20, v1-v6): delete topics by name or, from v6, by id.

v5 error messages. Decided by `ottla.controller.topics`, unless delete.topic.enable is false. Not done: authorization,
quotas on partition deletion (KIP-599). Source: DeleteTopicsRequest.json; ControllerApis.deleteTopics of Kafka 4.3.
"""

from ottla.controller.error_response import error_response
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

_FIRST_VERSION_WITH_DELETION_DISABLED = 3


@serves(api_key=20, versions=range(1, 7))
def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> Message | Delayed[Message]:
    """Pass the request on to the active controller where deletion is allowed."""
    if context.services.config.delete_topic_enable:
        return ask_controller(context, request)
    knows_code = context.api_version >= _FIRST_VERSION_WITH_DELETION_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
    return error_response(request, KafkaError(code, "Topic deletion is disabled."))
