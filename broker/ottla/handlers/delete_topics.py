"""DeleteTopics (api key 20, v1-v6): delete topics by name or, from v6, by id.

v5 error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599). Decided by `ottla.controller.topics`, unless
delete.topic.enable is false. Source: DeleteTopicsRequest.json; ControllerApis.deleteTopics of Kafka 4.3.
"""

from functools import partial

from ottla.errors import MESSAGES, ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller, decide_mutations
from ottla.handlers.in_parts import Entries, ask_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.error_response import error_response
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_FIRST_VERSION_WITH_DELETION_DISABLED = 3
_FIRST_STRICT_VERSION = 5
_FIRST_VERSION_WITH_IDS = 6
_TOPICS = Entries("topics", "responses", key="name topic_id")
_TOPIC_NAMES = Entries("topic_names", "responses", key="")


@serves(api_key=20, versions=range(1, 7))
def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> Message | Delayed[Message] | Steps[Message]:
    """Pass the request on to the active controller where deletion is allowed."""
    if context.services.config.delete_topic_enable:
        by_name = context.api_version < _FIRST_VERSION_WITH_IDS

        def ask(part: DeleteTopicsRequest) -> Delayed[Message]:
            return ask_controller(context, part, partial(_decide, context))

        return ask_in_parts(request, _TOPIC_NAMES if by_name else _TOPICS, ask)
    knows_code = context.api_version >= _FIRST_VERSION_WITH_DELETION_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
    return error_response(request, KafkaError(code, "Topic deletion is disabled."))


def _decide(context: RequestContext, request: DeleteTopicsRequest) -> Delayed[Message]:
    """Have deleted what the client may delete."""
    refused: list[DeletableTopicResult] = []
    if not context.would_be_allowed(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        request.topic_names = [name for name in request.topic_names if _may_by_name(context, name, refused)]
        request.topics = [topic for topic in request.topics if _may(context, topic, refused)]

    def answer(response: Message) -> Message:
        assert isinstance(response, DeleteTopicsResponse)
        response.responses += refused
        return response

    return decide_mutations(context, request, strict_since=_FIRST_STRICT_VERSION).then(answer)


def _may(context: RequestContext, topic: DeleteTopicState, refused: list[DeletableTopicResult]) -> bool:
    """Return whether the client may delete a topic, or refuse; who may not even describe it does not learn its name."""
    if topic.name is not None:
        return _may_by_name(context, topic.name, refused)
    name = context.services.metadata.topic_name(topic.topic_id)
    if name is None:
        # The controller may know it already: nobody has asked then whether it may be deleted.
        refused.append(_refusal(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id))
        return False
    if context.may_on_topic(Operation.DELETE, name):
        return True
    shown = name if context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) else None
    refused.append(_refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, shown, topic.topic_id))
    return False


def _may_by_name(context: RequestContext, name: str, refused: list[DeletableTopicResult]) -> bool:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.may_on_topic(Operation.DESCRIBE, name):
        if context.would_be_allowed(Operation.DELETE, ResourceType.TOPIC, name):
            return True
        if context.services.metadata.topic(name) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            context.may_on_topic(Operation.DELETE, name)  # that it is refused is to be noted
    refused.append(_refusal(code, name))
    return False


def _refusal(code: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=MESSAGES[code])
