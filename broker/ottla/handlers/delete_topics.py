"""DeleteTopics (api key 20, v1-v6): delete topics by name or, from v6, by id.

v5 error messages. Decided by `ottla.controller.topics`, unless delete.topic.enable is false. Not done: quotas on
partition deletion (KIP-599). Source: DeleteTopicsRequest.json; ControllerApis.deleteTopics of Kafka 4.3.
"""

from functools import partial

from ottla.controller.error_response import error_response
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.handlers.permissions import split
from ottla.purgatory import Delayed
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_FIRST_VERSION_WITH_DELETION_DISABLED = 3


@serves(api_key=20, versions=range(1, 7))
def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> Message | Delayed[Message]:
    """Pass the request on to the active controller where deletion is allowed."""
    if context.services.config.delete_topic_enable:
        return ask_controller(context, request, partial(_decide, context))
    knows_code = context.api_version >= _FIRST_VERSION_WITH_DELETION_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
    return error_response(request, KafkaError(code, "Topic deletion is disabled."))


def _decide(context: RequestContext, request: DeleteTopicsRequest) -> Delayed[Message]:
    """Have deleted what the client may delete; who may not even describe a topic does not learn its name."""
    refused: list[DeletableTopicResult] = []
    if not context.would_be_allowed(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        request.topic_names, kept_names = split(
            request.topic_names, lambda name: context.may_on_topic(Operation.DELETE, name)
        )
        request.topics, kept = split(request.topics, partial(_may_delete, context))
        refused = [_refuse(name, ZERO_UUID) for name in kept_names]
        refused += [_refuse(_visible_name(context, topic), topic.topic_id) for topic in kept]

    def answer(response: Message) -> Message:
        assert isinstance(response, DeleteTopicsResponse)
        response.responses += refused
        return response

    return context.services.controller.decide_here(request).then(answer)


def _may_delete(context: RequestContext, topic: DeleteTopicState) -> bool:
    name = topic.name if topic.name is not None else context.services.metadata.topic_name(topic.topic_id)
    # What does not exist is refused as such.
    return name is None or context.may_on_topic(Operation.DELETE, name)


def _visible_name(context: RequestContext, topic: DeleteTopicState) -> str | None:
    if topic.name is not None:
        return topic.name
    name = context.services.metadata.topic_name(topic.topic_id)
    return name if name is not None and context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) else None


def _refuse(name: str | None, topic_id: Uuid) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
