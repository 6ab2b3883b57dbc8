"""Delegation tokens: create, renew, expire and list them. Source: KIP-48, KIP-373."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.client.admin_base import AdminBase
from ottla.client.errors import raise_for
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedToken:
    """A token; principals are written ``TYPE:NAME``, times are wall-clock milliseconds. Its repr has no secret.

    ``hmac`` names the token in other calls; its base64 is the password of a login.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    issue_ms: int
    expiry_ms: int
    max_ms: int


class TokenAdmin(AdminBase):
    """Calls about delegation tokens; brokers reject them on connections that are not authenticated, or by a token."""

    async def create_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = -1
    ) -> DescribedToken:
        """Create a token for this client, or for ``owner``; ``lifetime_ms`` is at most the cluster's, -1 for that.

        Raises:
            KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                DELEGATION_TOKEN_AUTHORIZATION_FAILED.
        """
        kind, _, name = (owner or "").partition(":")
        split = [each.partition(":") for each in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind or None,
            owner_principal_name=name or None,
            renewers=[CreatableRenewers(principal_type=each[0], principal_name=each[2]) for each in split],
            max_lifetime_ms=lifetime_ms,
        )
        # Not retried: an attempt without a response may have created a token.
        created = await self._send_to_any(request, CreateDelegationTokenResponse)
        raise_for(created.error_code)
        return DescribedToken(
            token_id=created.token_id,
            hmac=bytes(created.hmac),
            owner=f"{created.principal_type}:{created.principal_name}",
            requester=f"{created.token_requester_principal_type}:{created.token_requester_principal_name}",
            renewers=tuple(renewers),
            issue_ms=created.issue_timestamp_ms,
            expiry_ms=created.expiry_timestamp_ms,
            max_ms=created.max_timestamp_ms,
        )

    async def describe_tokens(self, owners: Sequence[str] | None = None) -> list[DescribedToken]:
        """Return the tokens that this client may see, by id; with ``owners``, those that they own or may renew."""
        split = [each.partition(":") for each in owners or ()]
        named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, _, name in split]
        request = DescribeDelegationTokenRequest(owners=None if owners is None else named)

        async def attempt() -> list[DescribedToken]:
            response = await self._send_to_any(request, DescribeDelegationTokenResponse)
            raise_for(response.error_code)
            tokens = [
                DescribedToken(
                    token_id=each.token_id,
                    hmac=bytes(each.hmac),
                    owner=f"{each.principal_type}:{each.principal_name}",
                    requester=f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
                    renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                    issue_ms=each.issue_timestamp,
                    expiry_ms=each.expiry_timestamp,
                    max_ms=each.max_timestamp,
                )
                for each in response.tokens
            ]
            return sorted(tokens, key=lambda token: token.token_id)

        return await self._retry(attempt)

    async def renew_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Extend a token by ``period_ms`` from now, -1 for the cluster's default; return when it expires.

        Raises:
            KafkaError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """

        async def attempt() -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
            response = await self._send_to_any(request, RenewDelegationTokenResponse)
            raise_for(response.error_code)
            return response.expiry_timestamp_ms

        return await self._retry(attempt)

    async def expire_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Let a token expire in ``period_ms``, -1 for at once; return when it expires. Raises as `renew_token`."""

        async def attempt() -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
            response = await self._send_to_any(request, ExpireDelegationTokenResponse)
            raise_for(response.error_code)
            return response.expiry_timestamp_ms

        return await self._retry(attempt)
