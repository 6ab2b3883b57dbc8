"""Tokens: signature, claims and expiry decide which are valid; and the server's side of OAUTHBEARER."""

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from ottla.sasl.exchange import AuthenticationFailedError
from ottla.sasl.oauthbearer import OauthServer
from ottla.sasl.tokens import (
    ALGORITHMS,
    InvalidTokenError,
    KeySetError,
    SigningKeys,
    TokenRules,
    UnknownKeyError,
    ValidToken,
    read_signing_keys,
    validate_token,
)

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1_000
CLAIMS: dict[str, Any] = {"sub": "alice", "iss": "https://issuer", "iat": NOW_S - 10, "exp": NOW_S + 600}

PRIVATE: dict[str, Any] = {
    "rsa": rsa.generate_private_key(65_537, 2_048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "p521": ec.generate_private_key(ec.SECP521R1()),
    "small": rsa.generate_private_key(65_537, 1_024),
    "other": rsa.generate_private_key(65_537, 2_048),
}
CURVE_KEYS = {"ES256": "p256", "ES384": "p384", "ES512": "p521"}


def jwk(name: str, **more: Any) -> dict[str, Any]:
    public = PRIVATE[name].public_key()
    algorithm = RSAAlgorithm if isinstance(public, rsa.RSAPublicKey) else ECAlgorithm
    return {**algorithm.to_jwk(public, as_dict=True), "kid": name, "use": "sig", **more}


def key_set(*names: str) -> SigningKeys:
    return read_signing_keys(
        json.dumps({"keys": [jwk(name) for name in names or ("rsa", "p256", "p384", "p521")]}).encode()
    )


KEYS = key_set()


def signed(algorithm: str = "RS256", key: str | None = None, kid: str | None = "", **changes: Any) -> str:
    name = key or CURVE_KEYS.get(algorithm, "rsa")
    headers = {} if kid is None else {"kid": kid or name}
    claims = {claim: value for claim, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, PRIVATE[name], algorithm=algorithm, headers=headers)


def check(token: str, *, keys: SigningKeys = KEYS, rules: TokenRules | None = None) -> ValidToken:
    return validate_token(token, keys=keys, rules=rules or TokenRules(), now_ms=NOW_MS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_token_signed_by_the_issuer_is_valid(algorithm: str) -> None:
    assert check(signed(algorithm)) == ValidToken("alice", CLAIMS["exp"] * 1_000)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encode_token(header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes] = lambda _: b"") -> str:
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{text}.{encoded(sign(text.encode()))}"


PUBLIC_PEM = PRIVATE["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(encode_token({"alg": "none", "kid": "rsa"}, CLAIMS), id="none"),
        pytest.param(encode_token({"alg": "None"}, CLAIMS), id="none-in-other-letters"),
        pytest.param(encode_token({"kid": "rsa"}, CLAIMS), id="no-algorithm"),
        pytest.param(
            encode_token({"alg": "HS256", "kid": "rsa"}, CLAIMS, lambda text: hmac.digest(PUBLIC_PEM, text, "sha256")),
            id="hmac-with-the-public-key",
        ),
        pytest.param(encode_token({"alg": "RS256", "kid": "rsa"}, CLAIMS), id="no-signature"),
        pytest.param(signed()[:-4] + "AAAA", id="changed-signature"),
        pytest.param(signed(key="other", kid="rsa"), id="another-key-under-a-known-name"),
        pytest.param(signed("ES256", "p256", "p384"), id="a-key-of-another-curve"),
        pytest.param(signed("RS256", "rsa", "p256"), id="a-key-of-another-kind"),
        pytest.param(jwt.encode(CLAIMS, PRIVATE["rsa"], "RS256", {"kid": "rsa", "crit": ["x"], "x": 1}), id="critical"),
        pytest.param("", id="nothing"),
        pytest.param("a.b.c", id="no-json"),
        pytest.param(f"{encoded(b'[]')}.e30.", id="a-header-that-is-a-list"),
        pytest.param("." * 1_000, id="dots"),
    ],
)
def test_other_tokens_are_rejected(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        check(token)


@pytest.mark.parametrize(
    ("changes", "is_valid"),
    [
        pytest.param({"exp": NOW_S - 29}, True, id="expired-within-the-skew"),
        pytest.param({"exp": NOW_S - 30}, False, id="expired"),
        pytest.param({"exp": None}, False, id="without-an-end"),
        pytest.param({"exp": "soon"}, False, id="an-end-that-is-no-number"),
        pytest.param({"exp": 1e300}, False, id="an-end-beyond-all-time"),
        pytest.param({"exp": True}, False, id="an-end-that-is-true"),
        pytest.param({"nbf": NOW_S + 30}, True, id="not-yet-within-the-skew"),
        pytest.param({"nbf": NOW_S + 31}, False, id="not-yet"),
        pytest.param({"iat": NOW_S + 31}, False, id="issued-in-the-future"),
        pytest.param({"iat": None}, False, id="never-issued"),
        pytest.param({"iss": "https://other"}, False, id="another-issuer"),
        pytest.param({"iss": None}, False, id="no-issuer"),
        pytest.param({"aud": "me"}, True, id="for-me"),
        pytest.param({"aud": ["other", "me"]}, True, id="for-me-and-others"),
        pytest.param({"aud": "other"}, False, id="for-another"),
        pytest.param({"aud": None}, False, id="for-nobody"),
        pytest.param({"sub": None}, False, id="no-subject"),
        pytest.param({"sub": " "}, False, id="a-blank-subject"),
        pytest.param({"scope": "a b"}, True, id="scopes-as-text"),
        pytest.param({"scope": ["a", "b"]}, True, id="scopes-as-a-list"),
        pytest.param({"scope": ["a", 1]}, False, id="scopes-that-are-none"),
    ],
)
def test_claims_must_satisfy_the_rules(changes: dict[str, Any], is_valid: bool) -> None:
    rules = TokenRules(issuer="https://issuer", audiences=("me", "us"))
    token = signed(**{"aud": "me", **changes})
    if is_valid:
        assert check(token, rules=rules).subject == "alice"
        return
    with pytest.raises(InvalidTokenError):
        check(token, rules=rules)


@pytest.mark.parametrize("subject", ["admin\u3000", " admin", "admin\n", "\ud800"])
def test_ambiguous_subject_is_rejected(subject: str) -> None:
    with pytest.raises(InvalidTokenError, match="blanks around it, or is not encodable"):
        check(signed(sub=subject))


def test_overlong_token_is_rejected_without_parsing() -> None:
    with pytest.raises(InvalidTokenError, match="more than 16384"):
        check(signed(padding="x" * 16_384))


def test_token_with_an_audience_is_rejected_when_none_is_expected() -> None:
    with pytest.raises(InvalidTokenError, match=r"sasl.oauthbearer.expected.audience is not set"):
        check(signed(aud="me"))


def test_another_claim_may_contain_the_user() -> None:
    assert check(signed(email="a@b"), rules=TokenRules(subject_claim="email")).subject == "a@b"


def test_unknown_key_raises_its_own_error() -> None:
    with pytest.raises(UnknownKeyError):
        check(signed(kid="new"))


def test_token_without_key_id_needs_a_single_matching_key() -> None:
    assert check(signed(kid=None), keys=key_set("rsa", "p256")).subject == "alice"
    with pytest.raises(InvalidTokenError, match="2 keys"):
        check(signed(kid=None), keys=key_set("rsa", "other"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b'{"keys": 1}', id="no-list"),
        pytest.param(b'{"keys": []}', id="empty"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(json.dumps({"keys": [jwk("rsa", use="enc")]}).encode(), id="not-for-signatures"),
        pytest.param(json.dumps({"keys": [jwk("rsa", alg="HS256")]}).encode(), id="for-another-algorithm"),
        pytest.param(json.dumps({"keys": [jwk("small")]}).encode(), id="too-small"),
        pytest.param(json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "kid": "x"}]}).encode(), id="a-shared-secret"),
        pytest.param(json.dumps({"keys": [{"kty": "RSA"}, {"kty": "EC", "crv": "P-256"}, 7]}).encode(), id="halves"),
        pytest.param(json.dumps({"keys": [{"kty": "EC", "crv": []}]}).encode(), id="a-curve-that-is-a-list"),
    ],
)
def test_malformed_key_set_is_rejected(data: bytes) -> None:
    with pytest.raises(KeySetError):
        read_signing_keys(data)


def test_unusable_keys_are_skipped() -> None:
    rows = [jwk("rsa"), jwk("p256", use="enc"), {"kty": "oct"}, {"kty": "RSA", "n": "!"}]

    assert len(read_signing_keys(json.dumps({"keys": rows}).encode())) == 1


@given(token=st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=", max_size=300))
def test_garbage_is_rejected_as_a_token(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        check(token)


# --- the exchange ----------------------------------------------------------------------------------------------------


def server() -> OauthServer:
    return OauthServer(lambda token: check(token, keys=KEYS))


def first(token: str, authzid: str = "", extensions: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


@pytest.mark.parametrize(
    ("authzid", "extensions"),
    [("", ""), ("a=alice", ""), ("", "traceId=1\x01tenant=x y\x01")],
    ids=["plain", "authorization-id", "extensions"],
)
def test_valid_token_authenticates_its_subject_until_it_expires(authzid: str, extensions: str) -> None:
    exchange = server()

    assert exchange.evaluate(first(signed(), authzid, extensions)) == b""
    assert (exchange.is_complete, exchange.user) == (True, "alice")
    assert exchange.expires_at_ms == CLAIMS["exp"] * 1_000


def test_invalid_token_fails_after_the_client_acknowledges_the_error() -> None:
    exchange = server()

    assert exchange.evaluate(first(signed(exp=1))) == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationFailedError, match="expired") as failed:
        exchange.evaluate(b"\x01")
    assert failed.value.client_message == '{"status":"invalid_token"}'
    assert not exchange.is_complete


def test_error_message_truncates_names() -> None:
    with pytest.raises(AuthenticationFailedError) as failed:
        server().evaluate(first(signed(sub="s" * 1_000), "a=" + "e" * 40_000))
    assert failed.value.client_message is not None
    assert len(failed.value.client_message) < 300
    assert "e" * 64 in failed.value.client_message


def test_second_token_after_an_invalid_one_is_rejected() -> None:
    exchange = server()
    exchange.evaluate(first(signed(exp=1)))

    with pytest.raises(AuthenticationFailedError):
        exchange.evaluate(first(signed()))


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(first(signed(), "a=eve"), id="in-the-name-of-another"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01", id="an-acknowledgement-of-nothing"),
        pytest.param(b"y,,\x01auth=Bearer x\x01\x01", id="channel-binding"),
        pytest.param(b"n,,\x01auth=Basic x\x01\x01", id="another-scheme"),
        pytest.param(b"n,,\x01\x01", id="no-token"),
        pytest.param(b"n,,auth=Bearer x", id="no-separators"),
        pytest.param(b"\xff\xfe", id="no-text"),
    ],
)
def test_other_first_messages_are_rejected(token: bytes) -> None:
    with pytest.raises(AuthenticationFailedError):
        server().evaluate(token)


@given(token=st.binary(max_size=100))
def test_garbage_only_raises_authentication_failed(token: bytes) -> None:
    exchange = server()
    with pytest.raises(AuthenticationFailedError):
        exchange.evaluate(token)
    assert not exchange.is_complete
