"""AddOffsetsToTxn (api key 25, v0-v4): add a group's partition of ``__consumer_offsets`` to a transaction.

v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE. From ``transaction.version`` 2 on, clients leave it out.
Source: AddOffsetsToTxnRequest.json; KafkaApis.handleAddOffsetsToTxnRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.auto_create import create_internal_topic
from ottla.transactions.enlist import Enlistment
from ottla.transactions.known_errors import to_known_error
from ottla.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FIRST_VERSION_WITH_FENCED = 2


@serves(api_key=25, versions=range(0, 5))
def add_offsets_to_txn(context: RequestContext, request: AddOffsetsToTxnRequest) -> HandlerResult:
    """Respond when the partition is in the transaction."""
    if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.may_on_group(Operation.READ, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    services = context.services
    partition = services.groups.partition_for(request.group_id)
    if partition is None:
        create_internal_topic(services, CONSUMER_OFFSETS_TOPIC)
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    enlistment = Enlistment(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        partitions=frozenset({TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)}),
    )

    knows_fenced = context.api_version >= _FIRST_VERSION_WITH_FENCED

    def respond(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=to_known_error(code, knows_fenced=knows_fenced))

    return services.transactions.add_partitions(enlistment).then(respond)
