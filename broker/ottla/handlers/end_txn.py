"""EndTxn (api key 26, v0-v5): commit or abort a transaction.

v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE; v5 producer id and epoch of the next transaction (KIP-890).
Source: EndTxnRequest.json; KafkaApis.handleEndTxnRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.transactions.end import End
from ottla.transactions.known_errors import to_known_error
from ottla.transactions.metadata import EPOCH_PER_TRANSACTION_VERSION
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_VERSION_WITH_FENCED = 2
_FIRST_VERSION_WITH_NEXT_PRODUCER = 5


@serves(api_key=26, versions=range(0, 6))
def end_txn(context: RequestContext, request: EndTxnRequest) -> HandlerResult:
    """Respond when the decision is committed; the markers follow."""
    if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    has_next_producer = context.api_version >= _FIRST_VERSION_WITH_NEXT_PRODUCER
    end = End(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_commit=request.committed,
        client_transaction_version=EPOCH_PER_TRANSACTION_VERSION if has_next_producer else 0,
        now_ms=context.services.clock.wall_ms(),
    )
    knows_fenced = context.api_version >= _FIRST_VERSION_WITH_FENCED

    def respond(response: EndTxnResponse) -> EndTxnResponse:
        response.error_code = to_known_error(ErrorCode(response.error_code), knows_fenced=knows_fenced)
        return response

    return context.services.transactions.end_transaction(end).then(respond)
