"""CreateTopics (api key 19, v2-v7): create topics, or validate the request with validate_only.

v4 defaults for -1 partitions and replicas; v5 flexible, the new topic's settings; v7 its id.
v6 THROTTLING_QUOTA_EXCEEDED (KIP-599). Decided by `ottla.controller.topics`.
Source: CreateTopicsRequest.json of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import decide_mutations, forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.handlers.permissions import split
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

_FIRST_STRICT_VERSION = 6
_TOPICS = Entries("topics", "topics", key="name")


@serves(api_key=19, versions=range(2, 8))
def create_topics(context: RequestContext, request: CreateTopicsRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""
    return forward_in_parts(request, _TOPICS, partial(create_at_once, context))


def create_at_once(context: RequestContext, request: CreateTopicsRequest) -> Delayed[Message]:
    """Forward a request with few topics."""
    return forward_to_controller(context, request, partial(_decide, context))


def _decide(context: RequestContext, request: CreateTopicsRequest) -> Delayed[Message]:
    """Create the topics that the client may create; hide settings from clients that may not describe them."""
    rejected: list[CreatableTopicResult] = []
    if not context.would_be_allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        request.topics, hidden = split(request.topics, lambda topic: context.may_on_topic(Operation.CREATE, topic.name))
        rejected = [
            CreatableTopicResult(
                name=topic.name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="Authorization failed.",
            )
            for topic in hidden
        ]

    def add_rejected(response: Message) -> Message:
        assert isinstance(response, CreateTopicsResponse)
        for topic in response.topics:
            if not topic.error_code and not context.would_be_allowed(
                Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name
            ):
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.configs, topic.num_partitions, topic.replication_factor = [], -1, -1
        response.topics += rejected
        return response

    return decide_mutations(context, request, strict_since=_FIRST_STRICT_VERSION).then(add_rejected)
