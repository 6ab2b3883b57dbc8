"""CreateDelegationToken (api key 38, v1-v3): issue a token with which a client authenticates as its owner (KIP-48).

v2 flexible; v3 the owner and the requester (KIP-373): creating one for another owner needs CREATE_TOKENS on that user.
Decided by `ottla.controller.delegation_tokens`. Source: KafkaApis.handleCreateTokenRequest and ControllerApis of
Apache Kafka 4.3.
"""

from functools import partial

from ottla.controller.delegation_tokens import name_principals, owner_of
from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.token_requests import FIRST_VERSION_WITH_REQUESTER, decide_with_requester, may_manage_tokens
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


@serves(api_key=38, versions=range(1, 4), has_few_entries=True)
def create_delegation_token(context: RequestContext, request: CreateDelegationTokenRequest) -> Delayed[Message]:
    """Check whether the client may create tokens, and for this owner; forward the request."""
    requester = context.connection.principal
    owner = owner_of(request, requester)
    error = ErrorCode.NONE
    if not may_manage_tokens(context):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not context.may(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(each.principal_type != "User" for each in request.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is ErrorCode.NONE:
        return decide_with_requester(context, request).then(partial(_in_version, context.api_version))
    response = CreateDelegationTokenResponse(
        error_code=error, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )
    name_principals(response, request, requester)
    return Delayed.of(_in_version(context.api_version, response))


def _in_version(version: int, response: Message) -> Message:
    """Return the response without the fields that ``version`` does not have."""
    assert isinstance(response, CreateDelegationTokenResponse)
    if version < FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response
