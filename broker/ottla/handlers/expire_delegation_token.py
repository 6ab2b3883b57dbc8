"""ExpireDelegationToken (api key 40, v1-v2): shorten or end a token, which its owner and its renewers may (KIP-48).

v2 flexible. Decided by `ottla.controller.delegation_tokens`. Source: KafkaApis.handleExpireTokenRequest of Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.token_requests import decide_with_requester, may_manage_tokens
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


@serves(api_key=40, versions=range(1, 3))
def expire_delegation_token(context: RequestContext, request: ExpireDelegationTokenRequest) -> Delayed[Message]:
    """Forward the request, unless it came over a connection that may not manage tokens."""
    if may_manage_tokens(context):
        return decide_with_requester(context, request)
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return Delayed.of(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1))
