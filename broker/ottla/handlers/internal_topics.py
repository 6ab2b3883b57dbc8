"""Makes ``__consumer_offsets`` when it is first needed, with the settings that compaction and fast loading ask for.

Source: AutoTopicCreationManager, GroupCoordinatorService.groupMetadataTopicConfigs of Apache Kafka 4.3.
"""

import logging

from ottla.errors import ErrorCode
from ottla.handlers.services import Services
from ottla.types import CONSUMER_OFFSETS_TOPIC
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

log = logging.getLogger(__name__)


def create_consumer_offsets(services: Services) -> None:
    """Ask the controller for the topic; it comes with the metadata. Asking again while it is on its way is no harm."""
    config = services.config
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    topic = CreatableTopic(
        name=CONSUMER_OFFSETS_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=config.request_timeout_ms)
    services.controller.send(request).on_complete(_report)


def _report(response: Message) -> None:
    assert isinstance(response, CreateTopicsResponse), response
    for topic in response.topics:
        error = ErrorCode(topic.error_code)
        if error is ErrorCode.INVALID_REPLICATION_FACTOR:
            log.warning(
                "%s cannot be created, so no group can be served: %s. Start more brokers, or set "
                "offsets.topic.replication.factor to at most the number of brokers.",
                topic.name,
                topic.error_message,
            )
        elif error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER):
            log.warning(
                "%s was not created: %s (%s); the next request tries again", topic.name, error.name, topic.error_message
            )
