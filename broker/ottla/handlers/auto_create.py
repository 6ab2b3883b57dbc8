"""Creating a topic because a client asked about it (auto.create.topics.enable).

Source: AutoTopicCreationManager of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext
from ottla.handlers.internal_topics import create_consumer_offsets
from ottla.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

_BROKER_DEFAULT = -1


def create_missing_topics(context: RequestContext, names: list[str]) -> None:
    """Ask the controller for topics of these (legal) names, with the broker's defaults.

    Nobody waits for the answer: the topics come with the metadata, and clients ask again. Asking for one that is on
    its way is no harm. ``__transaction_state`` belongs to a coordinator that this release does not have.
    """
    if CONSUMER_OFFSETS_TOPIC in names:
        create_consumer_offsets(context.services)
    ordinary = [name for name in names if name not in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)]
    if ordinary:
        topics = [
            CreatableTopic(name=name, num_partitions=_BROKER_DEFAULT, replication_factor=_BROKER_DEFAULT)
            for name in ordinary
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=context.services.config.request_timeout_ms)
        context.services.controller.send(request)
