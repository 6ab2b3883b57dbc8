"""JSON Web Tokens (RFC 7519): validation against an issuer's keys and the rules of a listener.

A token is valid when a key of the issuer's key set has signed it with one of `ALGORITHMS`, which all need a private key
that only the issuer has, and when its claims satisfy the rules at the current time. ``none`` and HMAC are not among
them: a token that names one of these is rejected whatever it contains.
Source: BrokerJwtValidator and RefreshingHttpsJwksVerificationKeyResolver of Apache Kafka 4.3; RFC 8725.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.errors import OttlaError

_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*_RSA, *_CURVES)
RSA_BITS_MIN: Final = 2_048
TOKEN_CHARS_MAX: Final = 16 * 1024
"""Longer tokens are rejected without parsing: they are evaluated before the client has authenticated."""
KEYS_MAX: Final = 100
"""Keys of one set that are considered; issuers have a handful."""


class InvalidTokenError(OttlaError):
    """The token is not valid; the message says why, for this side's log, and contains no part of the signature."""


class UnknownKeyError(InvalidTokenError):
    """No key of the set has the token's key id: the issuer may have a new key."""


class KeySetError(OttlaError):
    """The document is not a JSON Web Key Set (RFC 7517); the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The claims that a token must have.

    Attributes:
        issuer: the only issuer that is accepted; None for any.
        audiences: one of them must be named; if there are none, a token that names an audience is rejected.
        skew_ms: the clock skew that is tolerated.
        subject_claim: the claim that holds the user.
    """

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    skew_ms: int = 30_000
    subject_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class ValidToken:
    """The claims of a valid token; the time is wall clock time."""

    subject: str
    expires_at_ms: int


class SigningKey(NamedTuple):
    """A public key of an issuer, and the algorithms that it may be used with."""

    key_id: str | None
    algorithms: frozenset[str]
    key: Any


class SigningKeys:
    """The public keys of an issuer, by id."""

    __slots__ = ("_by_id", "_keys")

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self._keys = keys
        self._by_id = {key.key_id: key for key in keys if key.key_id is not None}

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: object, algorithm: str) -> SigningKey:
        """Return the key that a token with this header was signed with.

        Without a key id, the set must have exactly one key for the algorithm.

        Raises:
            InvalidTokenError: there is none; UnknownKeyError if the key id is not known.
        """
        if key_id is None:
            fitting = [key for key in self._keys if algorithm in key.algorithms]
            if len(fitting) != 1:
                raise InvalidTokenError(f"it names no key, and {len(fitting)} keys of the set are for {algorithm}")
            return fitting[0]
        key = self._by_id.get(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise UnknownKeyError("it was signed with a key that the issuer's key set does not hold")
        if algorithm not in key.algorithms:
            raise InvalidTokenError(f"its key is not for {algorithm}")
        return key


def read_signing_keys(data: bytes) -> SigningKeys:
    """Read a JSON Web Key Set; keys that are not for signatures with `ALGORITHMS` are skipped.

    Raises:
        KeySetError: it is not a key set, or has no usable key.
    """
    try:
        rows = json.loads(data)["keys"]
        rows = [row for row in rows if isinstance(row, dict)][:KEYS_MAX]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeySetError(f"it is not a JSON Web Key Set: {type(error).__name__}") from None
    keys = [key for row in rows if (key := _read_key(row)) is not None]
    if not keys:
        raise KeySetError(f"none of its {len(rows)} keys is a public RSA or EC key for signatures")
    return SigningKeys(keys)


def _read_key(row: Mapping[str, Any]) -> SigningKey | None:
    """Return a key of the set; None if it is not usable."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if row.get("use", "sig") != "sig" or "d" in row:
        return None
    kind = row.get("kty")
    algorithms: Sequence[str] = ()
    if kind == "RSA":
        algorithms = _RSA
    elif kind == "EC":
        algorithms = [algorithm for algorithm, curve in _CURVES.items() if curve == row.get("crv")]
    allowed = frozenset(each for each in algorithms if row.get("alg", each) == each)
    if not allowed:
        return None
    try:
        key = PyJWK(dict(row), min(allowed)).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    key_id = row.get("kid")
    return SigningKey(key_id if isinstance(key_id, str) else None, allowed, key)


def validate_token(token: str, *, keys: SigningKeys, rules: TokenRules, now_ms: int) -> ValidToken:
    """Return the claims of ``token`` if it satisfies ``rules`` at ``now_ms`` of the wall clock.

    Raises:
        InvalidTokenError: the token is not valid.
    """
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError

    if len(token) > TOKEN_CHARS_MAX:
        raise InvalidTokenError(f"it has {len(token)} characters, more than {TOKEN_CHARS_MAX}")
    header = _read_header(token)
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise InvalidTokenError(f"its algorithm is {str(algorithm)[:20]!r}; allowed are {', '.join(ALGORITHMS)}")
    if "crit" in header or "b64" in header:
        raise InvalidTokenError("its header requires an extension")
    key = keys.find(header.get("kid"), algorithm)
    try:
        payload = PyJWS().decode_complete(token, key.key, algorithms=[algorithm])["payload"]
        claims = json.loads(payload)
    except (PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise InvalidTokenError(f"its signature or payload is not valid: {type(error).__name__}") from None
    if not isinstance(claims, dict):
        raise InvalidTokenError("its payload is not a JSON object of claims")
    return _check_claims(claims, rules, now_ms)


def _read_header(token: str) -> Mapping[str, Any]:
    """Return the header, before the first dot; the rest is not decoded before the key is known."""
    text = token.partition(".")[0]
    try:
        header = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InvalidTokenError("it is not a JSON Web Token")
    return header


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> ValidToken:
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    begins_ms = _time_ms(claims, "nbf") if "nbf" in claims else issued_ms
    if now_ms >= expires_ms + rules.skew_ms:
        raise InvalidTokenError(f"it expired {now_ms - expires_ms} ms ago")
    if max(issued_ms, begins_ms) > now_ms + rules.skew_ms:
        raise InvalidTokenError("it is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidTokenError("it was issued by another issuer")
    _check_audience(claims.get("aud"), rules.audiences)
    scopes = claims.get(rules.scope_claim, [])
    if not isinstance(scopes, str) and not (
        isinstance(scopes, list) and all(isinstance(each, str) and each.strip() for each in scopes)
    ):
        raise InvalidTokenError(f"its claim {rules.scope_claim} is neither a string nor a list of strings")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidTokenError(f"its claim {rules.subject_claim} names no user")
    # Definitions of white space differ between systems: trimming must not turn one user into another.
    if subject != subject.strip() or not _is_encodable(subject):
        raise InvalidTokenError(f"its claim {rules.subject_claim} has blanks around it, or is not encodable")
    return ValidToken(subject, expires_ms)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise InvalidTokenError(f"its claim {name} is missing, or not a time")
    return int(value * 1_000)


def _check_audience(named: object, expected: tuple[str, ...]) -> None:
    audiences = named if isinstance(named, list) else [] if named is None else [named]
    if expected and not any(audience in expected for audience in audiences):
        raise InvalidTokenError("it is for another audience")
    if audiences and not expected:
        raise InvalidTokenError("it names an audience, and sasl.oauthbearer.expected.audience is not set")
