"""InitProducerId (api key 22, v0-v5): a producer id and epoch, for idempotence or for a transactional id.

v2 flexible; v3 the producer's current id and epoch (KIP-360); v4 PRODUCER_FENCED; v5 KIP-890.
Source: InitProducerIdRequest.json; TransactionCoordinator.handleInitProducerId of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.transactions.initialize import Initialization
from ottla.transactions.known_errors import to_known_error
from ottla.types import ProducerId
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_ID = -1
_FIRST_VERSION_WITH_FENCED = 4


@serves(api_key=22, versions=range(0, 6))
def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> HandlerResult:
    """Return the next id with epoch 0, or what the coordinator of the transactional id decides."""
    if request.transactional_id is not None:
        if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return _error_response(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not _may_produce(context):
        return _error_response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_ID):
        return _error_response(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return context.services.producer_ids.generate().then(_respond)
    if not request.transactional_id:
        return _error_response(ErrorCode.INVALID_REQUEST)
    initialization = Initialization(
        transactional_id=request.transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        expected=None if request.producer_id == _NO_ID else (request.producer_id, request.producer_epoch),
        now_ms=context.services.clock.wall_ms(),
    )
    knows_fenced = context.api_version >= _FIRST_VERSION_WITH_FENCED

    def respond(response: InitProducerIdResponse) -> InitProducerIdResponse:
        response.error_code = to_known_error(ErrorCode(response.error_code), knows_fenced=knows_fenced)
        return response

    return context.services.transactions.initialize(initialization).then(respond)


def _may_produce(context: RequestContext) -> bool:
    """Return whether the client may write to any topic, which allows idempotent writes (KIP-679)."""
    if context.would_be_allowed(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return True
    client = context.connection
    may_write_somewhere = context.services.authorizer.authorize_by_resource_type(
        client.principal, client.host, Operation.WRITE, ResourceType.TOPIC
    )
    return may_write_somewhere or context.may_on_cluster(Operation.IDEMPOTENT_WRITE)


def _respond(taken: ProducerId | ErrorCode) -> InitProducerIdResponse:
    if isinstance(taken, ErrorCode):
        return _error_response(taken)
    return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


def _error_response(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NO_ID, producer_epoch=_NO_ID)
