"""DescribeTransactions (api key 65, v0): state, producer and partitions of transactional ids.

Source: DescribeTransactionsRequest.json; TransactionCoordinator.handleDescribeTransactions of Kafka 4.3; KIP-664.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps, unique_in_steps
from ottla.transactions.metadata import TransactionMetadata
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

_PARTITIONS_PER_STEP = 128


@serves(api_key=65, versions=range(0, 1))
def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """Describe each id, duplicates once; topics that the client may not describe are left out."""
    ids = yield from unique_in_steps(request.transactional_ids)
    response = DescribeTransactionsResponse()
    for transactional_id in ids:
        response.transaction_states.append((yield from _describe(context, transactional_id)))
        yield None
    return response


def _describe(context: RequestContext, transactional_id: str) -> Steps[TransactionState]:
    described = TransactionState(transactional_id=transactional_id)
    if not context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        described.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return described
    try:
        metadata = context.services.transactions.describe(transactional_id)
    except KafkaError as error:
        described.error_code = error.code
        return described
    described.transaction_state = metadata.state.label
    described.transaction_timeout_ms = metadata.timeout_ms
    described.transaction_start_time_ms = metadata.start_ms
    described.producer_id = metadata.producer_id
    described.producer_epoch = metadata.producer_epoch
    described.topics = yield from _topics(context, metadata)
    return described


def _topics(context: RequestContext, metadata: TransactionMetadata) -> Steps[list[TopicData]]:
    topics: dict[str, TopicData | None] = {}
    for number, (name, partition) in enumerate(metadata.partitions, 1):
        if name not in topics:
            is_allowed = context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name)
            topics[name] = TopicData(topic=name) if is_allowed else None
        topic = topics[name]
        if topic is not None:
            topic.partitions.append(partition)
        if number % _PARTITIONS_PER_STEP == 0:
            yield None
    return [topic for topic in topics.values() if topic is not None]
