"""InitProducerId (api key 22, v0-v5): a producer id and epoch for an idempotent producer.

v2 flexible; v3 the producer's current id and epoch (KIP-360); v4 PRODUCER_FENCED; v5 KIP-890.
Not done: transactional ids get COORDINATOR_NOT_AVAILABLE, as from FindCoordinator.
Source: InitProducerIdRequest.json; TransactionCoordinator.handleInitProducerId of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.types import ProducerId
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_ID = -1


@serves(api_key=22, versions=range(0, 6))
def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> HandlerResult:
    """Return the next id with epoch 0."""
    if request.transactional_id is not None:
        if not context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return _error_response(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        # Kafka rejects an empty id as a malformed request, and other ids if it is not their coordinator.
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if request.transactional_id else ErrorCode.INVALID_REQUEST
        return _error_response(code)
    if not _may_produce(context):
        return _error_response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_ID):
        return _error_response(ErrorCode.INVALID_REQUEST)
    return context.services.producer_ids.generate().then(_respond)


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
