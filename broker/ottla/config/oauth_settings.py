"""OAUTHBEARER settings of one listener: the rules for tokens, and the source of the issuer's keys.

A node's own token comes from a file. Keys come over https from a public address, or from a file, which has to be listed
in ``org.apache.kafka.sasl.oauthbearer.allowed.urls`` (a system property of Kafka's JVM, and a key here).
Source: SaslConfigs, OAuthBearerUtils.validateUrl of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from ottla.config.broker_keys import parse_broker_value
from ottla.config.key import ConfigValue
from ottla.config.listener_overrides import mechanism_text
from ottla.errors import ConfigurationError
from ottla.ports import KeyFetch
from ottla.sasl.oauthbearer import OAUTHBEARER

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
PRIVATE_ADDRESSES: Final = "ottla.oauthbearer.private.addresses.allow"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a key
_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """Settings with which one listener validates tokens.

    Attributes:
        issuer: sasl.oauthbearer.expected.issuer; None for any.
        audiences: sasl.oauthbearer.expected.audience.
        skew_ms: sasl.oauthbearer.clock.skew.seconds, in ms.
        refresh_ms: sasl.oauthbearer.jwks.endpoint.refresh.ms.
        retry_backoff_ms: backoff after the first failed fetch; it doubles.
    """

    fetch: KeyFetch
    issuer: str | None
    audiences: tuple[str, ...]
    skew_ms: int
    subject_claim: str
    scope_claim: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def read_oauth_settings(originals: Mapping[str, str], listener: str) -> OauthSettings:
    """Return the settings of ``listener``.

    Raises:
        ConfigurationError: the source of the keys is missing or not allowed.
    """

    def text(key: str) -> str | None:
        return mechanism_text(originals, listener, OAUTHBEARER, key)

    def value(key: str) -> ConfigValue:
        return parse_broker_value(key, text(key))

    def number(key: str, default: int = 0) -> int:
        found = value(key)
        return default if found is None else int(str(found))

    audiences = value("sasl.oauthbearer.expected.audience")
    jwks = "sasl.oauthbearer.jwks.endpoint"
    return OauthSettings(
        fetch=KeyFetch(
            url=_url(originals, listener, text(_URL)),
            allows_private_addresses=bool(parse_broker_value(PRIVATE_ADDRESSES, originals.get(PRIVATE_ADDRESSES))),
            connect_timeout_ms=number("sasl.login.connect.timeout.ms", _TIMEOUT_MS),
            read_timeout_ms=number("sasl.login.read.timeout.ms", _TIMEOUT_MS),
        ),
        issuer=text("sasl.oauthbearer.expected.issuer") or None,
        audiences=audiences if isinstance(audiences, tuple) else (),
        skew_ms=number("sasl.oauthbearer.clock.skew.seconds") * 1_000,
        subject_claim=text("sasl.oauthbearer.sub.claim.name") or "sub",
        scope_claim=text("sasl.oauthbearer.scope.claim.name") or "scope",
        refresh_ms=max(1_000, number(f"{jwks}.refresh.ms")),
        retry_backoff_ms=number(f"{jwks}.retry.backoff.ms"),
        retry_backoff_max_ms=number(f"{jwks}.retry.backoff.max.ms"),
    )


def read_token_path(originals: Mapping[str, str], listener: str) -> str:
    """Return the file with the token that this node presents to other nodes' ``listener``.

    A token endpoint would need a secret of this node's, and requests off its loop. Instead another process writes the
    token to a file and renews it, as Kubernetes does with the tokens of service accounts.

    Raises:
        ConfigurationError: there is no such file, or one that is not allowed.
    """
    text = mechanism_text(originals, listener, OAUTHBEARER, TOKEN_URL)
    hint = "set it to file:///PATH of a token that another process renews"
    if not text:
        raise ConfigurationError(f"{TOKEN_URL} is missing: this node logs in with OAUTHBEARER on {listener}; {hint}")
    parts = _split(TOKEN_URL, text)
    if parts.scheme != "file":
        raise ConfigurationError(
            f"{TOKEN_URL} for listener {listener} is of the form {parts.scheme}:; "
            f"nodes request no token endpoint: {hint}"
        )
    _require_allowed(originals, TOKEN_URL, listener, text, parts)
    return unquote(parts.path)


def _url(originals: Mapping[str, str], listener: str, text: str | None) -> str:
    if not text:
        raise ConfigurationError(
            f"{_URL} is missing: OAUTHBEARER on listener {listener} needs the issuer's keys (a JWKS) to check tokens "
            "with. Unsigned tokens, which Kafka accepts without this key, are rejected here."
        )
    parts = _split(_URL, text)
    if parts.scheme not in ("https", "file"):
        raise ConfigurationError(
            f"{_URL} for listener {listener} is of the form {parts.scheme}:; it may be https: or file:, so that "
            "keys cannot be replaced in transit"
        )
    _require_allowed(originals, _URL, listener, text, parts)
    if parts.scheme == "https" and (not parts.hostname or parts.username is not None):
        raise ConfigurationError(
            f"{_URL} for listener {listener} must be https://host[:port]/path, without user information"
        )
    return text


def _require_allowed(originals: Mapping[str, str], key: str, listener: str, text: str, parts: SplitResult) -> None:
    """Reject a file that is not in the list of allowed URLs, and any other URL that is not in a list that is set."""
    allowed = [url.strip() for url in originals.get(ALLOWED_URLS, "").split(",") if url.strip()]
    if (parts.scheme == "file" or allowed) and text not in allowed:
        raise ConfigurationError(
            f"{key} for listener {listener} is {text}, which is not in {ALLOWED_URLS}; add it there to allow it"
        )
    if "%00" in parts.path or "\0" in parts.path:
        raise ConfigurationError(f"{key} for listener {listener} has a NUL in its path")
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise ConfigurationError(f"{key} for listener {listener} is {text}; a file is file:///absolute/path")


def _split(key: str, text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{key} is no URL: {error}") from None
    return parts
