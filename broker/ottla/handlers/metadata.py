"""Metadata (api key 3, v0-v13): the brokers, the topics, and who leads each partition.

v1 null means all topics, and there is a controller; v4 the client may forbid auto creation; v5 offline replicas; v7
leader epochs; v8 authorized operations; v9 flexible; v10 topic ids; v12 topics by id; v13 top-level error.
An unknown topic is created when auto.create.topics.enable and the request allow it; until it is there the answer is
UNKNOWN_TOPIC_OR_PARTITION, as in Kafka, and clients ask again.
Source: MetadataRequest.json; KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import Answer, RequestContext, serves
from ottla.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from ottla.handlers.auto_create import create_missing_topics
from ottla.metadata.topics import NO_LEADER, PartitionRegistration, TopicImage
from ottla.types import INTERNAL_TOPICS, ZERO_UUID
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


@serves(api_key=3, versions=range(0, 14))
def metadata(context: RequestContext, request: MetadataRequest) -> Answer:
    """List the alive brokers and the wanted topics; start to create those that are missing."""
    services = context.services
    cache = services.metadata
    wanted = request.topics
    if wanted is None or (context.api_version == 0 and not wanted):
        topics = [_describe(context, cache.image.topics.by_name[name]) for name in cache.topic_names()]
    else:
        topics = [_find(context, topic) for topic in wanted]
        missing = [
            topic.name
            for topic in topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None
        ]
        if missing and services.config.auto_create_topics_enable and request.allow_auto_topic_creation:
            errors = create_missing_topics(context, missing)
            for topic in topics:
                if topic.name in errors:
                    topic.error_code = errors[topic.name]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = NOT_ASKED if topic.error_code else TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=_brokers(context),
        cluster_id=services.cluster_id,
        controller_id=_controller_id(context),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    found = []
    for broker in context.services.metadata.alive_brokers():
        endpoint = advertised_endpoint(context, broker)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return found


def _controller_id(context: RequestContext) -> int:
    """Return an alive broker, any: admin requests go to brokers, which forward them (KIP-590)."""
    alive = context.services.metadata.alive_brokers()
    if not alive:
        return NO_LEADER
    return alive[context.services.random.randrange(len(alive))].broker_id


def _find(context: RequestContext, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    cache = context.services.metadata
    if wanted.topic_id != ZERO_UUID:
        topic = cache.topic_by_id(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return _describe(context, topic)
    if wanted.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is wanted with neither a name nor an id")
    topic = cache.topic(wanted.name)
    if topic is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            name=wanted.name,
            is_internal=wanted.name in INTERNAL_TOPICS,
        )
    return _describe(context, topic)


def _describe(context: RequestContext, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _describe_partition(context, index, registration)
            for index, registration in sorted(topic.partitions.items())
        ],
    )


def _describe_partition(
    context: RequestContext, index: int, registration: PartitionRegistration
) -> MetadataResponsePartition:
    cache = context.services.metadata
    leader = registration.leader
    error = ErrorCode.NONE
    if not cache.is_alive(leader):
        error = ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif cache.broker_endpoint(leader, context.connection.listener) is None:
        error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=registration.leader_epoch,
        replica_nodes=list(registration.replicas),
        isr_nodes=list(registration.isr),
        offline_replicas=[replica for replica in registration.replicas if not cache.is_alive(replica)],
    )
