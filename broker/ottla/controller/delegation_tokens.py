"""`DelegationTokenControl`: creating, renewing and expiring delegation tokens, and removing expired ones.

The owner and the renewers of a token may renew and expire it. Times are those of the active controller's wall clock.
Source: DelegationTokenControlManager of Apache Kafka 4.3; KIP-48, KIP-373, KIP-900. Unlike there, the number of tokens
is bounded: any authenticated client may create tokens for itself.
"""

import logging
from dataclasses import replace
from typing import Final

from ottla.controller.config import ControllerConfig
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.log_lines import LineLimit
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.metadata.metadata_version import DELEGATION_TOKEN_METADATA_VERSION
from ottla.metadata.records import MetadataRecord
from ottla.ports import Clock, Random
from ottla.quoting import quoted
from ottla.security.delegation_tokens import DelegationTokens
from ottla.types import format_uuid
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.metadata_log import RemoveDelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

logger = logging.getLogger(__name__)

TOKENS_MAX: Final = 20_000
TOKENS_PER_REQUESTER_MAX: Final = 1_000
RENEWERS_MAX: Final = 100
PRINCIPALS_BYTES_MAX: Final = 4096
"""Of a token's owner, requester and renewers together: every node keeps them in memory, up to 80 MB for all tokens."""
_TIMESTAMP_MAX: Final = (1 << 63) - 1


class DelegationTokenControl:
    """Decides on the newest state. ``tokens`` finds a token by its HMAC.

    Soft state of the active controller: the time of the next round of removals, and how often a limit was reached.
    """

    def __init__(
        self,
        state: ControllerState,
        tokens: DelegationTokens,
        config: ControllerConfig,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._state = state
        self._tokens = tokens
        self._config = config
        self._clock = clock
        self._random = random
        self._next_round_ms: int | None = None
        self._lines = LineLimit(clock)
        self._rejected = 0

    def create(
        self, request: CreateDelegationTokenRequest, requester: str
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        """Create a token for the named owner, or for the requester; the renewers are users."""
        owner = owner_of(request, requester)
        renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
        error = self._unavailable() or self._rejection(owner, requester, renewers)
        response = CreateDelegationTokenResponse(error_code=error)
        name_principals(response, request, requester)
        if error:
            return ControllerResult(response)
        now_ms = self._clock.wall_ms()
        lifetime_ms = self._config.token_lifetime_ms_max
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        max_ms = _sum(now_ms, lifetime_ms)
        token = DelegationToken(
            token_id=format_uuid(self._random.uuid()),
            owner=owner,
            requester=requester,
            renewers=renewers,
            issue_ms=now_ms,
            max_ms=max_ms,
            expiry_ms=min(max_ms, _sum(now_ms, self._config.token_renewal_ms)),
        )
        response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_ms, token.max_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.token_id, response.hmac = token.token_id, self._tokens.hmac(token.token_id)
        return ControllerResult(response, [token.to_record()])

    def renew(
        self, request: RenewDelegationTokenRequest, requester: str
    ) -> ControllerResult[RenewDelegationTokenResponse]:
        """Extend a token that has not expired, up to its maximum lifetime."""
        now_ms = self._clock.wall_ms()
        try:
            token = self._find(request.hmac)
            if token.is_expired(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            _check_requester(token, requester)
        except KafkaError as error:
            return ControllerResult(RenewDelegationTokenResponse(error_code=error.code))
        period_ms = self._config.token_renewal_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        changed = replace(token, expiry_ms=min(token.max_ms, _sum(now_ms, period_ms)))
        return ControllerResult(
            RenewDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_ms), [changed.to_record()]
        )

    def expire(
        self, request: ExpireDelegationTokenRequest, requester: str
    ) -> ControllerResult[ExpireDelegationTokenResponse]:
        """Let a token expire after a period, or remove it at once, also when it has expired, for a negative period."""
        now_ms, period_ms = self._clock.wall_ms(), request.expiry_time_period_ms
        try:
            token = self._find(request.hmac)
            _check_requester(token, requester)
            if period_ms >= 0 and token.is_expired(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        except KafkaError as error:
            return ControllerResult(ExpireDelegationTokenResponse(error_code=error.code))
        if period_ms < 0:
            return ControllerResult(ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms), [_removal(token)])
        changed = replace(token, expiry_ms=min(token.max_ms, _sum(now_ms, period_ms)))
        return ControllerResult(
            ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiry_ms), [changed.to_record()]
        )

    def _unavailable(self) -> ErrorCode:
        """Return the error of every request where tokens are not enabled; NONE where they are."""
        if not self._tokens.is_enabled:
            return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        if self._state.image.features.metadata_version < DELEGATION_TOKEN_METADATA_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE

    def _rejection(self, owner: str, requester: str, renewers: tuple[str, ...]) -> ErrorCode:
        size_bytes = sum(len(each.encode()) for each in (owner, requester, *renewers))
        if len(renewers) > RENEWERS_MAX or size_bytes > PRINCIPALS_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        tokens = self._state.image.delegation_tokens.tokens
        of_requester = sum(each.requester == requester for each in tokens.values())
        if of_requester >= TOKENS_PER_REQUESTER_MAX:
            self._log_limit(requester, f"it created {of_requester}, as many as a client may")
            return ErrorCode.POLICY_VIOLATION
        if len(tokens) >= TOKENS_MAX:
            self._log_limit(requester, f"there are {len(tokens)}, as many as a cluster may have")
            return ErrorCode.POLICY_VIOLATION
        return ErrorCode.NONE

    def _log_limit(self, requester: str, limit: str) -> None:
        """Log a rejection, once a second at most: any authenticated client may reach its limit, and request more."""
        self._rejected += 1
        if self._lines.take_permit():
            logger.warning(
                "no delegation token for %s: %s; expired ones are removed every %d s, others by ottla token expire; "
                "%d such rejections so far",
                quoted(requester),
                limit,
                self._config.token_expiry_check_interval_ms // 1_000,
                self._rejected,
            )

    def _find(self, secret: bytes) -> DelegationToken:
        """Return the token with this HMAC.

        Raises:
            KafkaError: there is none, or there are no tokens at all.
        """
        unavailable = self._unavailable()
        if unavailable:
            raise KafkaError(unavailable)
        token_id = self._tokens.id_of(bytes(secret))
        token = None if token_id is None else self._state.image.delegation_tokens.tokens.get(token_id)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    # --- removal of expired tokens

    def start(self, now_ms: int) -> None:
        """Set the time of the first round: this controller has just become active."""
        self._next_round_ms = now_ms + self._config.token_expiry_check_interval_ms

    def run_round(self, now_ms: int) -> ControllerResult[None] | None:
        """Return the removals of expired tokens when a round is due; ``now_ms`` is monotonic."""
        if self._next_round_ms is None or now_ms < self._next_round_ms:
            return None
        wall_ms = self._clock.wall_ms()
        expired = [each for each in self._state.image.delegation_tokens.tokens.values() if each.is_expired(wall_ms)]
        self._next_round_ms = now_ms + self._config.token_expiry_check_interval_ms
        if expired:
            logger.info("%d delegation tokens have expired and are removed", len(expired))
        return ControllerResult(None, map(_removal, expired), is_atomic=False)

    def next_deadline_ms(self) -> int | None:
        return self._next_round_ms


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """Return the principal that is to own the token: the one that is named, or the requester."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def name_principals(
    response: CreateDelegationTokenResponse, request: CreateDelegationTokenRequest, requester: str
) -> None:
    """Set the fields of owner and requester, which errors have as well."""
    requester_type, _, requester_name = requester.partition(":")
    response.token_requester_principal_type, response.token_requester_principal_name = requester_type, requester_name
    response.principal_type, response.principal_name = requester_type, requester_name
    if request.owner_principal_name:
        # As the request has them: a type with a colon would be split elsewhere, perhaps into a name that is too long.
        response.principal_type = request.owner_principal_type or ""
        response.principal_name = request.owner_principal_name


def _check_requester(token: DelegationToken, requester: str) -> None:
    if not token.may_be_changed_by(requester):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _removal(token: DelegationToken) -> MetadataRecord:
    return MetadataRecord(RemoveDelegationTokenRecord(token_id=token.token_id), 0)


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _TIMESTAMP_MAX)
