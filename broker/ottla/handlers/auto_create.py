"""Creating a topic because a client asked about it (auto.create.topics.enable).

Source: AutoTopicCreationManager of Apache Kafka 4.3; a topic that is being created is not asked for twice.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.internal_topics import create_consumer_offsets
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

_BROKER_DEFAULT = -1


def create_missing_topics(context: RequestContext, names: list[str]) -> dict[str, ErrorCode]:
    """Ask the controller for topics with the broker's defaults; return why some can never be created, by name."""
    errors = {}
    valid = []
    for name in names:
        if name == CONSUMER_OFFSETS_TOPIC:
            create_consumer_offsets(context.services)
            continue
        if name == TRANSACTION_STATE_TOPIC:
            continue
        if invalid_topic_name_reason(name) is None:
            valid.append(name)
        else:
            errors[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
    if valid:
        topics = [
            CreatableTopic(name=name, num_partitions=_BROKER_DEFAULT, replication_factor=_BROKER_DEFAULT)
            for name in valid
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=context.services.config.request_timeout_ms)
        # Nobody waits for the answer: the topic comes with the metadata, and clients ask again.
        context.services.controller.send(request)
    return errors
