"""CreatePartitions (api key 37, v0-v3): add partitions to topics.

v2 flexible; v3 THROTTLING_QUOTA_EXCEEDED (KIP-599). Decided by `ottla.controller.topics`.
Source: CreatePartitionsRequest.json of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import decide_mutations, forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.handlers.permissions import split
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

_FIRST_STRICT_VERSION = 3
_TOPICS = Entries("topics", "results", key="name")


@serves(api_key=37, versions=range(0, 4))
def create_partitions(context: RequestContext, request: CreatePartitionsRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""

    def forward(part: CreatePartitionsRequest) -> Delayed[Message]:
        return forward_to_controller(context, part, partial(_decide, context))

    return forward_in_parts(request, _TOPICS, forward)


def _decide(context: RequestContext, request: CreatePartitionsRequest) -> Delayed[Message]:
    request.topics, hidden = split(request.topics, lambda topic: context.may_on_topic(Operation.ALTER, topic.name))
    rejected = [
        CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in hidden
    ]

    def add_rejected(response: Message) -> Message:
        assert isinstance(response, CreatePartitionsResponse)
        response.results += rejected
        return response

    return decide_mutations(context, request, strict_since=_FIRST_STRICT_VERSION).then(add_rejected)
