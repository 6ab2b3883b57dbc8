"""Metadata (api key 3, v0-v13): the brokers, the topics, and the leader of each partition.

v0 an empty list of topics means all; from v1 null does, and there is a controller; v2 cluster id; v4 the client may
forbid auto creation; v5 offline replicas; v7 leader epochs; v8 authorized operations; v9 flexible; v10 topic ids in
the response, v12 in the request; v13 top-level error.
An unknown topic is created when auto.create.topics.enable and the request allow it; until then the error is
UNKNOWN_TOPIC_OR_PARTITION, as in Kafka, and clients retry.
A response that would name a leader whose connection to this node has just broken waits for its successor
(`replication.disconnected_leaders`).
Source: MetadataRequest.json; KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache of Apache Kafka 4.3.
"""

import struct
from collections.abc import Callable, Iterable, Set
from typing import TypeVar

from ottla.errors import ErrorCode
from ottla.handlers.advertised import advertised_endpoint
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.auto_create import create_missing_topics
from ottla.handlers.permissions import NOT_REQUESTED, authorized_on_cluster, authorized_operations
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.metadata.topics import NO_LEADER, PartitionRegistration, TopicImage
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, map_in_steps, split_in_steps, unique_in_steps
from ottla.types import INTERNAL_TOPICS, ZERO_UUID, Endpoint, NodeId, Uuid
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import EncodedArray
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

KeyT = TypeVar("KeyT")

_FIRST_VERSION_WITH_REQUESTS_BY_ID = 12
_FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
_HIDDEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
"""Such topics are returned without any details, even without authorized operations."""
_INDEX_START = 2
"""A partition starts with its error code, then its index, in every version."""
_INDEX = struct.Struct(">i")
_TOPICS_PER_STEP = 256
_PARTITIONS_PER_STEP = 64
_FEWEST_PARTITIONS_KEPT = 16
"""Below this, caching the encoded partitions saves less than it costs."""


@serves(api_key=3, versions=range(0, 14))
def metadata(context: RequestContext, request: MetadataRequest) -> Steps[HandlerResult]:
    """List the alive brokers and the requested topics; wait briefly if a leader has just been lost."""
    if request.topics is not None and (yield from _is_malformed(context, request.topics)):
        return (yield from _malformed_response(context, request.topics))
    disconnected_leaders = context.services.replicas.disconnected_leaders
    if not disconnected_leaders.lost_leaders():
        return (yield from _describe_wanted(context, request))
    return disconnected_leaders.respond_when_settled(
        lambda lost: _names_leader(context, request, lost), lambda: _describe_wanted(context, request)
    )


def _names_leader(context: RequestContext, request: MetadataRequest, leaders: Set[NodeId]) -> bool:
    """Return whether the response would name one of ``leaders`` for a partition."""
    metadata = context.services.metadata
    led = metadata.topics_led_by(leaders)
    if not led or _wants_every_topic(context, request):
        return bool(led)
    by_name = metadata.image.topics.by_name
    return any(
        each.topic_id in led or ((topic := by_name.get(each.name or "")) is not None and topic.topic_id in led)
        for each in request.topics or ()
    )


def _wants_every_topic(context: RequestContext, request: MetadataRequest) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _describe_wanted(context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
    """Describe the requested topics of the newest image, duplicates once; start the creation of missing topics."""
    described = _Described(context)
    wanted = request.topics
    if wanted is None or _wants_every_topic(context, request):
        topics = yield from described.every_topic()
    elif any(topic.topic_id != ZERO_UUID for topic in wanted):
        ids = yield from unique_in_steps(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
        topics = yield from described.topics_of(described.topic_by_id, ids)
    else:
        names = yield from unique_in_steps(topic.name or "" for topic in wanted)
        topics = yield from described.topics_of(described.topic_by_name, names)
        if context.services.config.auto_create_topics_enable and request.allow_auto_topic_creation:
            yield from _create_missing(context, topics)
    if request.include_topic_authorized_operations:
        for topic in topics:
            yield None
            if topic.error_code not in _HIDDEN:
                operations = authorized_operations(context, ResourceType.TOPIC, topic.name or "")
                topic.topic_authorized_operations = operations
    return MetadataResponse(
        brokers=described.brokers(),
        cluster_id=context.services.cluster_id,
        controller_id=_controller_id(context),
        topics=topics,
        cluster_authorized_operations=(
            authorized_on_cluster(context) if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def _is_malformed(context: RequestContext, topics: list[MetadataRequestTopic]) -> Steps[bool]:
    """Return whether a topic has neither name nor id, or an id in a version that has the field but not the feature."""
    has_ids = context.api_version >= _FIRST_VERSION_WITH_REQUESTS_BY_ID
    for number, topic in enumerate(topics, 1):
        if (topic.name is None) if topic.topic_id == ZERO_UUID else not has_ids:
            return True
        if not has_ids and topic.name is None:
            return True
        if number % _TOPICS_PER_STEP == 0:
            yield None
    return False


def _malformed_response(context: RequestContext, topics: list[MetadataRequestTopic]) -> Steps[MetadataResponse]:
    too_early = context.api_version < _FIRST_VERSION_WITH_REQUESTS_BY_ID
    error = ErrorCode.INVALID_REQUEST if too_early else ErrorCode.UNKNOWN_SERVER_ERROR
    rejected = yield from map_in_steps(
        lambda topic: MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id), topics
    )
    return MetadataResponse(topics=rejected)


def _create_missing(context: RequestContext, topics: list[MetadataResponseTopic]) -> Steps[None]:
    missing = []
    for number, topic in enumerate(topics, 1):
        if number % ITEMS_PER_STEP == 0:
            yield None
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
            continue
        may_create_any = context.would_be_allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        if may_create_any or context.may_on_topic(Operation.CREATE, topic.name):
            missing.append(topic.name)
        else:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if missing:
        create_missing_topics(context, missing)


def _controller_id(context: RequestContext) -> NodeId:
    """Return an alive broker, any: admin requests go to brokers, which forward them (KIP-590)."""
    alive = context.services.metadata.alive_brokers()
    if not alive:
        return NO_LEADER
    return alive[context.services.random.randrange(len(alive))].broker_id


class _Described:
    """Descriptions from one image, for one client."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._image = context.services.metadata.image
        self._alive = {broker.broker_id: broker for broker in context.services.metadata.alive_brokers()}
        self._endpoints: dict[NodeId, Endpoint] = {}
        for broker_id, broker in self._alive.items():
            endpoint = advertised_endpoint(context, broker)
            if endpoint is not None:
                self._endpoints[broker_id] = endpoint
        # Partitions depend only on the image and on the brokers that the client can reach.
        self._view = (context.api_version, *self._endpoints)

    def brokers(self) -> list[MetadataResponseBroker]:
        """List the alive brokers, and for a moment brokers that have just been fenced, which lead nothing."""
        listed = list(self._alive.values())
        lately_fenced = self._context.services.metadata.lately_fenced_brokers()
        if lately_fenced:
            listed = sorted([*listed, *lately_fenced], key=lambda broker: broker.broker_id)
        described = []
        for broker in listed:
            endpoint = self._endpoints.get(broker.broker_id) or advertised_endpoint(self._context, broker)
            if endpoint is not None:
                described.append(
                    MetadataResponseBroker(
                        node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                    )
                )
        return described

    def every_topic(self) -> Steps[list[MetadataResponseTopic]]:
        allowed, _ = yield from split_in_steps(
            sorted(self._image.topics.by_name),
            lambda name: self._context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name),
        )
        return (yield from self.topics_of(lambda name: self._topic(self._image.topics.by_name[name]), allowed))

    def topics_of(
        self, describe: Callable[[KeyT], Steps[MetadataResponseTopic]], keys: Iterable[KeyT]
    ) -> Steps[list[MetadataResponseTopic]]:
        topics = []
        for key in keys:
            topics.append((yield from describe(key)))
            yield None
        return topics

    def topic_by_name(self, name: str) -> Steps[MetadataResponseTopic]:
        if not self._context.may_on_topic(Operation.DESCRIBE, name):
            return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
        topic = self._image.topics.by_name.get(name)
        if topic is not None:
            return (yield from self._topic(topic))
        is_legal = invalid_topic_name_reason(name) is None
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
        )

    def topic_by_id(self, topic_id: Uuid) -> Steps[MetadataResponseTopic]:
        topic = self._image.topics.by_id.get(topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        if not self._context.may_on_topic(Operation.DESCRIBE, topic.name):
            return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
        return (yield from self._topic(topic))

    def _topic(self, topic: TopicImage) -> Steps[MetadataResponseTopic]:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=(yield from self._partitions(topic)),
        )

    def _partitions(self, topic: TopicImage) -> Steps[list[MetadataResponsePartition]]:
        """Describe the partitions; a large topic's encoding is cached, as clients request it again and again."""
        if len(topic.partitions) < _FEWEST_PARTITIONS_KEPT:
            return self._describe(topic)
        cache = self._context.services.metadata
        kept = cache.encoded_partitions(topic, self._view)
        if kept is None:
            kept = yield from self._encode(topic)
            # The image may have changed between two slices: an outdated encoding is not cached.
            if cache.topic_by_id(topic.topic_id) is topic:
                cache.keep_encoded_partitions(topic, self._view, kept)
        return kept.as_list

    def _encode(self, topic: TopicImage) -> Steps[EncodedArray]:
        """Encode the partitions; those with the same replicas and leader differ in their index only."""
        version = self._context.api_version
        around_index: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
        data: list[bytes] = []
        for number, (index, registration) in enumerate(sorted(topic.partitions.items()), 1):
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
            kind = registration.replicas, registration.isr, registration.leader, registration.leader_epoch
            found = around_index.get(kind)
            if found is None:
                item = MetadataResponse.encode_item(
                    version, MetadataResponseTopic, "partitions", self._partition(index, registration)
                )
                found = around_index[kind] = item[:_INDEX_START], item[_INDEX_START + _INDEX.size :]
            data += (found[0], _INDEX.pack(index), found[1])
        return MetadataResponse.join_items(version, len(topic.partitions), data)

    def _describe(self, topic: TopicImage) -> list[MetadataResponsePartition]:
        return [self._partition(index, each) for index, each in sorted(topic.partitions.items())]

    def _partition(self, index: int, registration: PartitionRegistration) -> MetadataResponsePartition:
        leader, error = registration.leader, ErrorCode.NONE
        if leader not in self._endpoints:
            # A leader that is alive but has no such listener is a misconfiguration of listeners.
            is_up = leader in self._alive and self._context.api_version >= _FIRST_VERSION_WITH_LISTENER_NOT_FOUND
            error = ErrorCode.LISTENER_NOT_FOUND if is_up else ErrorCode.LEADER_NOT_AVAILABLE
            leader = NO_LEADER
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=registration.leader_epoch,
            replica_nodes=list(registration.replicas),
            isr_nodes=list(registration.isr),
            offline_replicas=[replica for replica in registration.replicas if replica not in self._endpoints],
        )
