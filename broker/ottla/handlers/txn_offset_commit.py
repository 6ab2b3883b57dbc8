"""TxnOffsetCommit (api key 28, v0-v5): store a group's offsets in a producer's transaction.

v1 throttle time; v2 leader epochs (KIP-320), COORDINATOR_LOAD_IN_PROGRESS; v3 flexible, fencing by group metadata
(KIP-447); v4 TRANSACTION_ABORTABLE; v5 the coordinator adds its partition to the transaction (KIP-890).
Source: TxnOffsetCommitRequest.json; KafkaApis.handleTxnOffsetCommitRequest of Apache Kafka 4.3.
"""

from copy import copy

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.offset_pieces import merge_topics, pieces_of_commit
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, values_in_steps
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


@serves(api_key=28, versions=range(0, 6))
def txn_offset_commit(context: RequestContext, request: TxnOffsetCommitRequest) -> Steps[HandlerResult]:
    """Return errors for partitions that do not exist; store the others' offsets."""
    # The producer id is not authorized: the transactional id implies it.
    denied = ErrorCode.NONE
    if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not context.may_on_group(Operation.READ, request.group_id):
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    known: list[TxnOffsetCommitRequestTopic] = []
    failed: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        failed_partitions = yield from _split_failed_partitions(context, topic, denied)
        yield None
        if failed_partitions:
            failed.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=failed_partitions))
        if topic.partitions:
            known.append(topic)
    committed: list[Delayed[TxnOffsetCommitResponse]] = []
    for piece in pieces_of_commit(known):
        if len(committed) == 1:
            # The first batch opens the transaction in the log; without it, each piece would have to be verified.
            yield committed[0]
        part = copy(request)
        part.topics = piece
        committed.append(context.services.groups.commit_transactional_offsets(part, context.api_version))
        yield None
    if len(committed) == 1:
        return committed[0].then(lambda response: _response([failed, response.topics]))
    stored = yield from values_in_steps(committed)
    return (yield from _response([failed, *(response.topics for response in stored)]))


def _split_failed_partitions(
    context: RequestContext, topic: TxnOffsetCommitRequestTopic, denied: ErrorCode
) -> Steps[list[TxnOffsetCommitResponsePartition]]:
    """Remove the partitions of a topic that may not be committed, and return their errors.

    ``denied`` is the error of the whole request, NONE if the client is authorized.
    """
    metadata = context.services.metadata
    error = denied
    if error is ErrorCode.NONE and not context.may_on_topic(Operation.READ, topic.name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known, failed = [], []
    for number, partition in enumerate(topic.partitions, 1):
        index = partition.partition_index
        if error is not ErrorCode.NONE:
            failed.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
        elif metadata.partition(TopicPartition(topic.name, index)) is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failed.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=unknown))
        else:
            known.append(partition)
        if number % ITEMS_PER_STEP == 0:
            yield None
    topic.partitions = known
    return failed


def _response(parts: list[list[TxnOffsetCommitResponseTopic]]) -> Steps[TxnOffsetCommitResponse]:
    return TxnOffsetCommitResponse(topics=(yield from merge_topics(parts, lambda topic: topic.name)))
