"""DeleteTopics (api key 20, v1-v6): delete topics by name or, from v6, by id.

v5 error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599). Decided by `ottla.controller.topics`, unless
delete.topic.enable is false. Source: DeleteTopicsRequest.json; ControllerApis.deleteTopics of Kafka 4.3.
"""

from functools import partial

from ottla.errors import MESSAGES, ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import decide_mutations, forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
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
    """Forward the request to the active controller if deletion is enabled."""
    if context.services.config.delete_topic_enable:
        by_name = context.api_version < _FIRST_VERSION_WITH_IDS

        def forward(part: DeleteTopicsRequest) -> Delayed[Message]:
            return forward_to_controller(context, part, partial(_decide, context))

        return forward_in_parts(request, _TOPIC_NAMES if by_name else _TOPICS, forward)
    knows_code = context.api_version >= _FIRST_VERSION_WITH_DELETION_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
    return error_response(request, KafkaError(code, "Topic deletion is disabled."))


def _decide(context: RequestContext, request: DeleteTopicsRequest) -> Delayed[Message]:
    """Delete the topics that the client may delete."""
    rejected: list[DeletableTopicResult] = []
    if not context.would_be_allowed(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        request.topic_names = [name for name in request.topic_names if _may_by_name(context, name, rejected)]
        request.topics = [topic for topic in request.topics if _may(context, topic, rejected)]

    def add_rejected(response: Message) -> Message:
        assert isinstance(response, DeleteTopicsResponse)
        response.responses += rejected
        return response

    return decide_mutations(context, request, strict_since=_FIRST_STRICT_VERSION).then(add_rejected)


def _may(context: RequestContext, topic: DeleteTopicState, rejected: list[DeletableTopicResult]) -> bool:
    """Return whether the client may delete a topic, else reject it; without DESCRIBE its name is not returned."""
    if topic.name is not None:
        return _may_by_name(context, topic.name, rejected)
    name = context.services.metadata.topic_name(topic.topic_id)
    if name is None:
        # The controller may already know the topic, but its deletion would not be authorized.
        rejected.append(_error_result(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id))
        return False
    if context.may_on_topic(Operation.DELETE, name):
        return True
    shown = name if context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) else None
    rejected.append(_error_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, shown, topic.topic_id))
    return False


def _may_by_name(context: RequestContext, name: str, rejected: list[DeletableTopicResult]) -> bool:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.may_on_topic(Operation.DESCRIBE, name):
        if context.would_be_allowed(Operation.DELETE, ResourceType.TOPIC, name):
            return True
        if context.services.metadata.topic(name) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            context.may_on_topic(Operation.DELETE, name)  # records the denial
    rejected.append(_error_result(code, name))
    return False


def _error_result(code: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=MESSAGES[code])
