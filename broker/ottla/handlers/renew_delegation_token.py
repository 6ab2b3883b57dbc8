"""RenewDelegationToken (api key 39, v1-v2): extend a delegation token, which its owner and its renewers may (KIP-48).

v2 flexible. Decided by `ottla.controller.delegation_tokens`. Source: KafkaApis.handleRenewTokenRequest of Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.token_requests import decide_with_requester, may_manage_tokens
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@serves(api_key=39, versions=range(1, 3))
def renew_delegation_token(context: RequestContext, request: RenewDelegationTokenRequest) -> Delayed[Message]:
    """Forward the request, unless it came over a connection that may not manage tokens."""
    if may_manage_tokens(context):
        return decide_with_requester(context, request)
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return Delayed.of(RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1))
