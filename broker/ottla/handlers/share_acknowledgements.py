"""Acknowledgements in ShareFetch and ShareAcknowledge: checked, applied, and collected when they are written.

Source: KafkaApis.handleAcknowledgements, validateAcknowledgementBatches of Apache Kafka 4.3.1.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext
from ottla.handlers.group_protocols import is_share_protocol_enabled
from ottla.handlers.share_member_ids import is_member_id_valid
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches
from ottla.replication.partition import Partition
from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_partitions.share_partition import AcknowledgementBatch
from ottla.share_partitions.step_budget import StepBudget
from ottla.share_state.persister import SharePartitionKey, StateResult
from ottla.types import TopicIdPartition, TopicPartition, Uuid
from ottla.wire.acknowledge_type import AcknowledgeType
from ottla.wire.acl_codes import Operation

LISTED_PER_STEP: Final = 32
"""Partitions of a response."""
MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors with which a response names the leader."""
_TYPES_PER_STEP: Final = 4_096


class SentBatch(Protocol):
    """An acknowledgement batch of either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class SentPartition(Protocol):
    """A partition of either request."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[SentBatch]: ...


class SentTopic(Protocol):
    """A topic of either request."""

    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[SentPartition]: ...


class SharedPartition(NamedTuple):
    """A partition of this node, and the key of a group's share-partition of it."""

    partition: Partition
    key: SharePartitionKey


class CheckedBatches(NamedTuple):
    """Acknowledgements of a partition that fit together, and their records by acknowledge type."""

    batches: list[AcknowledgementBatch]
    records: Counter[int]


Acknowledged = dict[TopicIdPartition, Delayed[StateResult]]


def require_manager(context: RequestContext) -> SharePartitionManager:
    """Return the manager of the node's share-partitions.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, share.version is 0.
    """
    if not is_share_protocol_enabled(context):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return context.services.share_partitions


def require_member(context: RequestContext, group_id: str | None, member_id: str | None) -> None:
    """Check the fields that each request has.

    Raises:
        KafkaError: INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED.
    """
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    context.require_on_group(Operation.READ, group_id)
    if not is_member_id_valid(member_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def find_partition(context: RequestContext, group_id: str, wanted: TopicIdPartition) -> SharedPartition:
    """Return the partition that a client names by topic id.

    Raises:
        KafkaError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
    """
    services = context.services
    topic = services.metadata.topic_name(wanted.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not context.may_on_topic(Operation.READ, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if services.metadata.partition(TopicPartition(topic, wanted.partition)) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = services.replicas.get(topic, wanted.partition)
    return SharedPartition(partition, SharePartitionKey(group_id, *wanted))


def acknowledge(
    context: RequestContext, group_id: str, member_id: str, topics: Sequence[SentTopic], *, is_renew: bool
) -> Steps[Acknowledged]:
    """Apply the acknowledgements of each partition, in slices."""
    results: Acknowledged = {}
    for topic in topics:
        for sent in topic.partitions:
            if not sent.acknowledgement_batches:
                continue
            wanted = TopicIdPartition(topic.topic_id, sent.partition_index)
            try:
                checked = yield from check_batches(sent.acknowledgement_batches, allows_renew=is_renew)
                results[wanted] = yield from _acknowledge_partition(context, group_id, member_id, wanted, checked)
            except KafkaError as error:
                results[wanted] = Delayed.of(StateResult(error.code, error.message))
            yield None
    return results


def _acknowledge_partition(
    context: RequestContext,
    group_id: str,
    member_id: str,
    wanted: TopicIdPartition,
    checked: CheckedBatches,
) -> Steps[Delayed[StateResult]]:
    services = context.services
    partition, key = find_partition(context, group_id, wanted)
    traffic = services.replicas.traffic_of(partition.topic_partition.topic)
    traffic.share_acknowledgement_requests += 1
    try:
        partition.require_leadership(-1)
        share_partition = services.share_partitions.find(key, partition)
        if share_partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except KafkaError:
        traffic.failed_share_acknowledgement_requests += 1
        raise
    now_ms = services.clock.monotonic_ms()
    written = yield from share_partition.acknowledge(member_id, checked.batches, now_ms=now_ms)

    def count(result: StateResult) -> None:
        if result.error:
            traffic.failed_share_acknowledgement_requests += 1
        else:
            services.share_partitions.acknowledged.update(checked.records)

    written.on_complete(count)
    return written


def check_batches(sent: Sequence[SentBatch], *, allows_renew: bool) -> Steps[CheckedBatches]:
    """Return the batches of a partition, and count their records, in slices.

    Raises:
        KafkaError: INVALID_REQUEST: ranges out of order, or types that do not fit them or do not exist.
    """
    type_max = AcknowledgeType.RENEW if allows_renew else AcknowledgeType.REJECT
    budget = StepBudget()
    previous_last, checked = -1, CheckedBatches([], Counter())
    for batch in sent:
        types, size = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        is_in_order = batch.first_offset <= batch.last_offset and batch.first_offset >= previous_last
        if not is_in_order or not types or (len(types) > 1 and len(types) != size):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        valid = bytearray()
        for part in batches(types, _TYPES_PER_STEP):
            if min(part) < AcknowledgeType.GAP or max(part) > type_max:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            valid += bytes(part)
            if budget.spend(len(part)):
                yield None
        if len(types) == 1:
            checked.records[types[0]] += size
        else:
            checked.records.update({each: valid.count(each) for each in AcknowledgeType})
        previous_last = batch.last_offset
        checked.batches.append(AcknowledgementBatch(batch.first_offset, batch.last_offset, bytes(valid)))
    return checked
