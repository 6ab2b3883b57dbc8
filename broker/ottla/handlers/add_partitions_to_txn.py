"""AddPartitionsToTxn (api key 24, v0-v5): add partitions to transactions, or verify that they are in them.

v0-v3 one transaction, from its producer; v2 PRODUCER_FENCED; v3 flexible; v4 several transactions, from brokers, each
to be changed or only verified (KIP-890); v5 TRANSACTION_ABORTABLE.
Source: AddPartitionsToTxnRequest.json; KafkaApis.handleAddPartitionsToTxnRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterable

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory.steps import Steps
from ottla.transactions.enlist import PARTITIONS_MAX, Enlistment
from ottla.transactions.known_errors import to_known_error
from ottla.transactions.metadata import EPOCH_PER_TRANSACTION_VERSION
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FIRST_VERSION_OF_BROKERS = 4
_FIRST_VERSION_WITH_FENCED = 2
_PARTITIONS_PER_STEP = 64

_Errors = dict[TopicPartition, ErrorCode]


@serves(api_key=24, versions=range(0, 6))
def add_partitions_to_txn(context: RequestContext, request: AddPartitionsToTxnRequest) -> Steps[HandlerResult]:
    """Respond with an error code for each partition."""
    if context.api_version >= _FIRST_VERSION_OF_BROKERS:
        return (yield from _serve_brokers(context, request))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        partitions = yield from _partitions(transaction.topics)
        errors = dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    else:
        errors = yield from _enlist(context, transaction)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(yield from _results(transaction.topics, errors)))


def _serve_brokers(context: RequestContext, request: AddPartitionsToTxnRequest) -> Steps[AddPartitionsToTxnResponse]:
    if not context.may_on_cluster(Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = AddPartitionsToTxnResponse()
    for transaction in request.transactions:
        errors = yield from _enlist(context, transaction)
        if ErrorCode.UNSUPPORTED_VERSION in errors.values():
            # Records under transaction.version 0 cannot say that the client uses 2.
            return AddPartitionsToTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=(yield from _results(transaction.topics, errors)),
            )
        )
        yield None
    return response


def _enlist(context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> Steps[_Errors]:
    """Add or verify all partitions of a transaction; nothing if one of them does not exist or is not allowed."""
    invalid = yield from _invalid_partitions(context, transaction.topics)
    partitions = yield from _partitions(transaction.topics)
    if invalid:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | invalid
    if len(partitions) > PARTITIONS_MAX:
        return dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
    enlistment = Enlistment(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=frozenset(partitions),
        client_transaction_version=(
            EPOCH_PER_TRANSACTION_VERSION if context.api_version >= _FIRST_VERSION_OF_BROKERS else 0
        ),
    )
    transactions = context.services.transactions
    if transaction.verify_only:
        missing: ErrorCode | frozenset[TopicPartition] = yield transactions.verify_partitions(enlistment)
        if isinstance(missing, ErrorCode):
            return dict.fromkeys(partitions, missing)
        return {
            partition: ErrorCode.TRANSACTION_ABORTABLE if partition in missing else ErrorCode.NONE
            for partition in partitions
        }
    code: ErrorCode = yield transactions.add_partitions(enlistment)
    knows_fenced = context.api_version >= _FIRST_VERSION_WITH_FENCED
    return dict.fromkeys(partitions, to_known_error(code, knows_fenced=knows_fenced))


def _invalid_partitions(context: RequestContext, topics: Iterable[AddPartitionsToTxnTopic]) -> Steps[_Errors]:
    """Return the errors of partitions that do not exist, or that the client may not write to."""
    is_client = context.api_version < _FIRST_VERSION_OF_BROKERS
    metadata = context.services.metadata
    errors: _Errors = {}
    for topic in topics:
        is_allowed = not is_client or context.may_on_topic(Operation.WRITE, topic.name)
        for number, index in enumerate(topic.partitions, 1):
            partition = TopicPartition(topic.name, index)
            if not is_allowed:
                errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif metadata.partition(partition) is None:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
        yield None
    return errors


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Steps[dict[TopicPartition, None]]:
    partitions: dict[TopicPartition, None] = {}
    for topic in topics:
        for number, index in enumerate(topic.partitions, 1):
            partitions[TopicPartition(topic.name, index)] = None
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
        yield None
    return partitions


def _results(topics: Iterable[AddPartitionsToTxnTopic], errors: _Errors) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    results: list[AddPartitionsToTxnTopicResult] = []
    for topic in topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        for number, index in enumerate(topic.partitions, 1):
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                )
            )
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
        results.append(result)
        yield None
    return results
