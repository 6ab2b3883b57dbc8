"""DescribeDelegationToken (api key 41, v1-v3): list tokens, with their secrets (KIP-48).

v2 flexible; v3 the requester (KIP-373). A client sees the tokens that it owns, created or may renew, with DESCRIBE on a
token or DESCRIBE_TOKENS on a user also others. Source: KafkaApis.handleDescribeTokensRequest and
DelegationTokenManager.filterToken of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.token_requests import FIRST_VERSION_WITH_REQUESTER, may_manage_tokens
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.purgatory.steps import Steps, unique_in_steps
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

_TOKENS_PER_STEP = 8


@serves(api_key=41, versions=range(1, 4))
def describe_delegation_token(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    """List the tokens of the named owners, requesters and renewers, of all without names, that the client may see."""
    if not may_manage_tokens(context):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not context.services.delegation_tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    named: dict[str, None] | None = None
    if request.owners is not None:
        owners = (f"{each.principal_type}:{each.principal_name}" for each in request.owners)
        named = yield from unique_in_steps(owners)
    described: list[DescribedDelegationToken] = []
    tokens = context.services.metadata.image.delegation_tokens.tokens
    for number, token in enumerate(tokens.values(), 1):
        is_named = named is None or not named.keys().isdisjoint((token.owner, token.requester, *token.renewers))
        if is_named and _may_see(context, token):
            described.append(_describe(context, token))
        if number % _TOKENS_PER_STEP == 0:
            yield None
    return DescribeDelegationTokenResponse(tokens=described)


def _may_see(context: RequestContext, token: DelegationToken) -> bool:
    return (
        token.belongs_to(context.connection.principal)
        or context.would_be_allowed(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or context.would_be_allowed(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _describe(context: RequestContext, token: DelegationToken) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    has_requester = context.api_version >= FIRST_VERSION_WITH_REQUESTER
    requester_type, _, requester_name = (token.requester if has_requester else "").partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=context.services.delegation_tokens.hmac(token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )
