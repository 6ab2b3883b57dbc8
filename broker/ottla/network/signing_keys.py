"""`IssuerKeys`: the keys that verify one listener's tokens, refreshed periodically, kept while a fetch fails.

Source: RefreshingHttpsJwks and JwksFileVerificationKeyResolver of Apache Kafka 4.3.
"""

import logging
from typing import Final

from ottla.config.oauth_settings import OauthSettings
from ottla.ports import Clock, KeySource
from ottla.quoting import one_line
from ottla.sasl.tokens import (
    InvalidTokenError,
    KeySetError,
    SigningKeys,
    TokenRules,
    UnknownKeyError,
    ValidToken,
    read_signing_keys,
    validate_token,
)

logger = logging.getLogger(__name__)

UNKNOWN_KEY_INTERVAL_MS: Final = 10_000
"""A token with an unknown key triggers a fetch, at most this often over all clients."""


class IssuerKeys:
    """Signing keys of one issuer; ``source`` fetches them and returns the result on the loop."""

    def __init__(self, settings: OauthSettings, *, clock: Clock, source: KeySource) -> None:
        self.settings = settings
        self._rules = TokenRules(
            issuer=settings.issuer,
            audiences=settings.audiences,
            skew_ms=settings.skew_ms,
            subject_claim=settings.subject_claim,
            scope_claim=settings.scope_claim,
        )
        self._clock = clock
        self._source = source
        self._keys: SigningKeys | None = None
        self._is_fetching = False
        self._failures = 0
        self._next_fetch_ms = clock.monotonic_ms()
        self._unknown_key_silent_until_ms = 0

    def validate(self, token: str) -> ValidToken:
        """Verify ``token``; return its content.

        Raises:
            InvalidTokenError: the token is invalid, or no keys have been fetched yet.
        """
        if self._keys is None:
            raise InvalidTokenError("the issuer's keys have not been fetched yet")
        try:
            return validate_token(token, keys=self._keys, rules=self._rules, now_ms=self._clock.wall_ms())
        except UnknownKeyError:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= self._unknown_key_silent_until_ms and not self._is_fetching:
                self._unknown_key_silent_until_ms = now_ms + UNKNOWN_KEY_INTERVAL_MS
                self._next_fetch_ms = min(self._next_fetch_ms, now_ms)
            raise

    def tick(self, now_ms: int) -> None:
        """Fetch the keys when that is due."""
        if self._is_fetching or now_ms < self._next_fetch_ms:
            return
        self._is_fetching = True
        self._source.fetch_keys(self.settings.fetch, self._on_fetched)

    def next_deadline_ms(self) -> int | None:
        return None if self._is_fetching else self._next_fetch_ms

    def _on_fetched(self, result: bytes | str) -> None:
        """Use fetched keys; ``result`` is their content, or the message of a failure."""
        self._is_fetching = False
        now_ms = self._clock.monotonic_ms()
        if isinstance(result, bytes):
            try:
                self._keys = read_signing_keys(result)
            except KeySetError as error:
                result = str(error)
            except Exception as error:
                # An issuer's document must not end this node, whatever exceptions it provokes in libraries.
                logger.debug("the key set cannot be read", exc_info=True)
                result = f"the key set cannot be read: {type(error).__name__}"
            else:
                if self._failures:
                    logger.info("the keys at %s can be fetched again", self.settings.fetch.url)
                self._failures = 0
                self._next_fetch_ms = now_ms + self.settings.refresh_ms
                return
        if not self._failures:
            logger.error("the keys of tokens cannot be fetched from %s: %s", self.settings.fetch.url, one_line(result))
        backoff_ms = self.settings.retry_backoff_ms << min(self._failures, 20)
        self._failures += 1
        self._next_fetch_ms = now_ms + max(1, min(backoff_ms, self.settings.retry_backoff_max_ms))
