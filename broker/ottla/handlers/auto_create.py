"""Creation of topics that clients request metadata of (auto.create.topics.enable), and of internal topics.

Internal are the coordinators' topics, and those of a streams group's topology (KIP-1071).
No request waits for the creation: the topics arrive with the metadata, and clients retry. A topic whose creation is in
flight is not requested again, however many clients need it. The controller authorizes a creation that a Metadata
request or a streams group's heartbeat causes as if the client had sent CreateTopics, and charges its
controller_mutation_rate.
Source: DefaultAutoTopicCreationManager, GroupCoordinatorService.groupMetadataTopicConfigs,
TransactionStateManager.transactionStateTopicConfigs, ShareCoordinatorService.shareGroupStateTopicConfigs of Apache
Kafka 4.3.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from ottla.config.node_config import NodeConfig
from ottla.errors import MESSAGES, ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.create_topics import create_at_once
from ottla.handlers.in_parts import ENTRIES_PER_PART
from ottla.handlers.services import Services
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches
from ottla.quoting import one_line, quoted
from ottla.types import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

log = logging.getLogger(__name__)

_BROKER_DEFAULT = -1


def create_missing_topics(context: RequestContext, names: list[str]) -> None:
    """Request topics with these (legal) names from the controller on behalf of the client, with the broker's defaults.

    Only as many at once as the controller decides without yielding: clients retry for topics that are still missing.
    """
    config = context.services.config
    topics = [_topic(config, name) for name in names[:ENTRIES_PER_PART]]
    _request_topics_once(context.services, topics, _creator_for(context))


def create_streams_internal_topics(
    context: RequestContext, topics: Mapping[str, CreatableTopic], *, keep_errors_ms: int
) -> Steps[None]:
    """Request internal topics of a streams group on behalf of its member, except for topics that failed lately.

    An error is kept in `Services.topic_creation_errors`, for ``keep_errors_ms`` from the response on.
    """
    services = context.services
    errors, clock = services.topic_creation_errors, services.clock

    def keep_errors(response: CreateTopicsResponse) -> None:
        expires_at_ms = clock.monotonic_ms() + keep_errors_ms
        for topic in response.topics:
            error = ErrorCode(topic.error_code)
            # Kafka keeps that a topic exists, too: it was created twice, before the first one was in the metadata.
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                message = topic.error_message or MESSAGES.get(error, error.name)
                errors.add(topic.name, message, expires_at_ms=expires_at_ms)

    now_ms = clock.monotonic_ms()
    for batch in batches(topics.values(), ENTRIES_PER_PART):
        wanted = [topic for topic in batch if errors.message(topic.name, now_ms=now_ms) is None]
        _request_topics_once(services, wanted, _creator_for(context), keep_errors)
        yield None


def _creator_for(context: RequestContext) -> Callable[[CreateTopicsRequest], Delayed[Message]]:
    """Return what creates a few topics as if the client of ``context`` had sent CreateTopics."""
    creation = replace(context, api_key=CreateTopicsRequest.api_key, api_version=CreateTopicsRequest.versions.last)
    return lambda request: create_at_once(creation, request)


def create_internal_topic(services: Services, name: str) -> None:
    """Request a coordinator's topic from the controller for this node itself."""
    _request_topics_once(services, [_topic(services.config, name)], services.controller.send)


def _request_topics_once(
    services: Services,
    topics: list[CreatableTopic],
    create: Callable[[CreateTopicsRequest], Delayed[Message]],
    on_response: Callable[[CreateTopicsResponse], None] | None = None,
) -> None:
    in_flight = services.topics_in_flight
    topics = [topic for topic in topics if topic.name not in in_flight]
    if not topics:
        return
    names = {topic.name for topic in topics}

    def finish(response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse), response
        in_flight.difference_update(names)
        _report(response)
        if on_response is not None:
            on_response(response)

    in_flight.update(names)
    create(CreateTopicsRequest(topics=topics, timeout_ms=services.config.request_timeout_ms)).on_complete(finish)


def _topic(config: NodeConfig, name: str) -> CreatableTopic:
    # Compaction and fast loading need settings of their own.
    if name == CONSUMER_OFFSETS_TOPIC:
        partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE_TOPIC:
        partitions = config.transaction_state_log_num_partitions
        replicas = config.transaction_state_log_replication_factor
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_GROUP_STATE_TOPIC:
        # Not compacted: the coordinator deletes what its snapshots have replaced.
        partitions = config.share_coordinator_state_topic_num_partitions
        replicas = config.share_coordinator_state_topic_replication_factor
        settings = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        }
    else:
        partitions = replicas = _BROKER_DEFAULT
        settings = {}
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )


_REPLICATION_FACTOR_KEYS = {
    CONSUMER_OFFSETS_TOPIC: ("group", "offsets.topic.replication.factor"),
    TRANSACTION_STATE_TOPIC: ("transaction", "transaction.state.log.replication.factor"),
    SHARE_GROUP_STATE_TOPIC: ("share group", "share.coordinator.state.topic.replication.factor"),
}
"""What needs the topic, and the key that says how many brokers its creation waits for."""


def _report(response: CreateTopicsResponse) -> None:
    for topic in response.topics:
        error = ErrorCode(topic.error_code)
        if topic.name not in INTERNAL_TOPICS:
            log.debug(
                "topic %s, which a client named: %s %s",
                quoted(topic.name),
                error.name,
                one_line(topic.error_message or ""),
            )
        elif error is ErrorCode.INVALID_REPLICATION_FACTOR:
            served, key = _REPLICATION_FACTOR_KEYS[topic.name]
            log.warning(
                "%s cannot be created, so no %s can be served: %s. Start more brokers, or set %s to at most the number "
                "of brokers.",
                topic.name,
                served,
                topic.error_message,
                key,
            )
        elif error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER):
            log.warning(
                "%s was not created: %s (%s); the next request tries again", topic.name, error.name, topic.error_message
            )
