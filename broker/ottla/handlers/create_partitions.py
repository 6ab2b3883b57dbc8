"""CreatePartitions (api key 37, v0-v3): give topics more partitions.

v2 flexible. Decided by `ottla.controller.topics`. Not done: quotas on partition creation (KIP-599).
Source: CreatePartitionsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.create_partitions import CreatePartitionsRequest


@serves(api_key=37, versions=range(0, 4))
def create_partitions(context: RequestContext, request: CreatePartitionsRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request)
