"""CreateTopics (api key 19, v2-v7): create topics, or with validate_only say whether they could be.

v4 defaults for -1 partitions and replicas; v5 flexible, the new topic's settings; v7 its id.
Decided by `ottla.controller.topics`. Not done: quotas on partition creation (KIP-599).
Source: CreateTopicsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest


@serves(api_key=19, versions=range(2, 8))
def create_topics(context: RequestContext, request: CreateTopicsRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request)
