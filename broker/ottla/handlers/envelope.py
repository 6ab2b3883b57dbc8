"""Envelope (api key 58, v0): a broker forwards a client's request with the client's identity (KIP-590).

The inner request is handled as if the client had sent it to this controller; its response has the inner request's
version. NOT_CONTROLLER anywhere in it becomes the envelope's own error, so that the broker finds the active
controller.
Source: EnvelopeRequest.json; EnvelopeUtils, RequestContext and RequestChannel of Apache Kafka 4.3.
"""

import logging
from dataclasses import replace
from ipaddress import ip_address
from types import GeneratorType
from typing import Final

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.catalog import find
from ottla.membership.controller_channel import PRINCIPAL_VERSION, is_not_controller
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line
from ottla.types import Endpoint
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version
from ottla.wire.messages.stored_data import DefaultPrincipalData

logger = logging.getLogger(__name__)

FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""APIs that a broker may forward for its clients (ApiKeys.forwardable)."""


@serves(api_key=58, versions=range(0, 1))
def envelope(context: RequestContext, request: EnvelopeRequest) -> Steps[HandlerResult]:
    """Open the envelope, handle the request in it, and wrap the response."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    try:
        inner, inner_request = _open(context, request)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The envelope cannot be opened: {error}") from error
    served = find(inner.api_key, inner.api_version)
    if served is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    result = served.handler(inner, inner_request)
    if isinstance(result, GeneratorType):
        result = yield from result
    if isinstance(result, Message):
        return _close(inner, result)
    if isinstance(result, Delayed):
        return result.then(lambda response: _close(inner, response))
    raise KafkaError(ErrorCode.INVALID_REQUEST, "The request in the envelope has no response.")


def _open(context: RequestContext, request: EnvelopeRequest) -> tuple[RequestContext, Message]:
    data = memoryview(request.request_data)
    key, version = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:4], "big", signed=True)
    if key not in ApiKey.__members__.values():
        raise ProtocolError(f"there is no API key {key}")
    api_key = ApiKey(key)
    if api_key not in FORWARDABLE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{api_key.name} is not a forwardable request.")
    if version not in request_type(api_key).versions:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    header, position = RequestHeader.decode_from(data, request_header_version(api_key, version))
    principal = _principal(request.request_principal)
    connection = replace(
        context.connection,
        principal=f"{principal.type}:{principal.name}",
        is_token_authenticated=principal.token_authenticated,
        is_forwarded=True,
        peer=Endpoint(_host(request.client_host_address), 0),
    )
    inner = replace(
        context,
        api_key=key,
        api_version=version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        connection=connection,
    )
    entries_max = context.services.config.ottla_request_entries_max
    opened, _ = request_type(api_key).decode_from(data, version, position, entries_max=entries_max)
    return inner, opened


def _principal(data: bytes | None) -> DefaultPrincipalData:
    if data is None:
        raise ProtocolError("it names no principal")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != PRINCIPAL_VERSION:
        raise ProtocolError(f"its principal has version {version}, not {PRINCIPAL_VERSION}")
    return DefaultPrincipalData.decode(data, version, 2)


def _host(address: bytes) -> str:
    try:
        return str(ip_address(bytes(address)))
    except ValueError as error:
        raise ProtocolError(f"its client address has {len(address)} bytes") from error


def _close(inner: RequestContext, response: Message) -> EnvelopeResponse:
    if is_not_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    header = ResponseHeader(correlation_id=inner.correlation_id)
    api_key = ApiKey(inner.api_key)
    header_version = response_header_version(api_key, inner.api_version)
    try:
        data = header.encode(header_version) + response.encode(inner.api_version)
    except ValueError as error:
        # A bug, which must not propagate to the controller: it completes this response among others.
        logger.error(
            "the response to %s v%d cannot be encoded: %s", api_key.name, inner.api_version, one_line(str(error))
        )
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=data)
