"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the password.

The server stores neither the password nor anything that a client could authenticate with (`ScramCredential`):

=============== ===================================================== ==================================================
token           from                                                  form
=============== ===================================================== ==================================================
client-first    client                                                ``n,[a=AUTHZID],n=USER,r=NONCE[,EXTENSIONS]``
server-first    server                                                ``r=NONCE+NONCE,s=SALT,i=ITERATIONS``
client-final    client                                                ``c=HEADER,r=NONCE+NONCE,p=PROOF``
server-final    server                                                ``v=SIGNATURE``
=============== ===================================================== ==================================================

For an unknown user the server continues with a decoy credential (`ottla.sasl.scram_decoys`), which takes as long and
fails in the end as a wrong password does. Passwords are used as they are, in UTF-8, without SASLprep, as in Kafka.
Channel binding is not offered. With the extension ``tokenauth=true`` the user name is the id of a delegation token, the
password its HMAC in base64, and the authenticated user its owner (KIP-48).
Source: ScramSaslServer, ScramSaslClient, ScramFormatter and ScramMessages of Apache Kafka 4.3.
"""

import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.sasl.exchange import SASL_NAME, AuthenticationFailedError, decode_text, escape_name, unescape_name

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
_SALT_BITS: Final = 130
_NONCE_BITS: Final = 192
_SALT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_PAIRS: Final = [high + low for high in _SALT_DIGITS for low in _SALT_DIGITS]
_SALT_PAIR_COUNT: Final = len(_SALT_PAIRS)
TOOLS_SALT: Final = re.compile(rb"[0-9a-z]{1,26}")
"""The form of salts created by Kafka's tools, and by `new_salt`."""


class ScramMechanism(IntEnum):
    """The int8 that requests and records carry (ScramMechanism.type)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    def __init__(self, _: int) -> None:
        self.mechanism_name = self._name_.replace("_", "-")
        """The mechanism's name in SASL."""
        self.hash_name = self._name_.removeprefix("SCRAM_").replace("_", "").lower()
        self.hash: Callable[[bytes], hashlib._Hash] = getattr(hashlib, self.hash_name)
        """The hash's constructor: looking it up by name for each authentication would take twice as long."""
        self.hash_bytes: int = self.hash(b"").digest_size


SCRAM_MECHANISMS: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The server's record of one user's password. Its repr shows no secret."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True, repr=False)
class DelegationTokenCredential:
    """The server's record of a delegation token: its owner's name, and until when (wall clock) it is valid."""

    owner: str
    credential: ScramCredential
    expires_at_ms: int


CredentialOf = Callable[[str], ScramCredential | None]
"""Returns a user's credential; None if the user has none."""
DelegationTokenOf = Callable[[str], DelegationTokenCredential | None]
"""Returns the credential of a token, given its id; None if there is no valid one."""


def _no_token(_: str) -> None:
    """Tokens are not served."""


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's Hi(password, salt, iterations): milliseconds of work, by design."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a server stores of a salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = mechanism.hash(client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def new_salt(randrange: Callable[[int], int]) -> bytes:
    """Return a salt as Kafka's tools create it: up to 26 letters and digits."""
    return _base_36(randrange(1 << _SALT_BITS))


def new_nonce(randrange: Callable[[int], int]) -> str:
    """Return a nonce, unique to one exchange: printable, without a comma."""
    return f"{randrange(1 << _NONCE_BITS):x}"


def _base_36(number: int) -> bytes:
    pairs = []
    while number:
        number, pair = divmod(number, _SALT_PAIR_COUNT)
        pairs.append(_SALT_PAIRS[pair])
    pairs.reverse()
    return ("".join(pairs).lstrip("0") or "0").encode()


# Possessive quantifiers: an extension that turns out to be the proof is backtracked as a whole, not by character.
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]++)*"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"[A-Za-z0-9/+]*={0,2}"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{SASL_NAME}))?,)(?P<bare>n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ScramServer:
    """See `exchange.ServerExchange`.

    Args of the constructor:
        credential_of: called once, when the client has sent its user name.
        nonce: a `new_nonce`.
        decoy_of: returns the credential to continue with for a user that has none.
        delegation_token_of: called instead of ``credential_of`` for a login with a delegation token.
    """

    __slots__ = (
        "_credential",
        "_credential_of",
        "_decoy_of",
        "_delegation_token_of",
        "_first",
        "_is_known",
        "_mechanism",
        "_nonce",
        "_server_first",
        "expires_at_ms",
        "has_delegation_token",
        "is_complete",
        "user",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        *,
        credential_of: CredentialOf,
        nonce: str,
        decoy_of: Callable[[str], ScramCredential],
        delegation_token_of: DelegationTokenOf = _no_token,
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._decoy_of = decoy_of
        self._delegation_token_of = delegation_token_of
        self.has_delegation_token = False
        self._first: re.Match[str] | None = None
        self._server_first = ""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self.user: str | None = None
        self.is_complete = False
        self.expires_at_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `exchange.ServerExchange.evaluate`."""
        text = decode_text(token, self._mechanism.mechanism_name)
        return self._begin(text) if self._first is None else self._finish(text)

    def _begin(self, text: str) -> bytes:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise AuthenticationFailedError("no SCRAM client-first message, or one that requests channel binding")
        self._first = first
        name = self.user = unescape_name(first["name"])
        self.has_delegation_token = _requests_token(first["extensions"])
        found = self._find_token(name) if self.has_delegation_token else self._credential_of(name)
        # Computed for existing users as well: the time must not reveal which users exist.
        decoy = self._decoy_of(name)
        self._is_known = found is not None
        self._credential = found or decoy
        if first["authzid"] is not None and unescape_name(first["authzid"]) != name:
            message = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailedError(message, client_message=message)
        salt = _encode(self._credential.salt)
        self._server_first = f"r={first['nonce']}{self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first.encode()

    def _find_token(self, token_id: str) -> ScramCredential | None:
        login = self._delegation_token_of(token_id)
        if login is None:
            return None
        self.user, self.expires_at_ms = login.owner, login.expires_at_ms
        return login.credential

    def _finish(self, text: str) -> bytes:
        assert self._first is not None
        assert self._credential is not None
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise AuthenticationFailedError("no SCRAM client-final message")
        own, both = self._first["nonce"], self._first["nonce"] + self._nonce
        if final["nonce"] == own + both:
            raise AuthenticationFailedError("its nonce is duplicated, as librdkafka before version 2.6.1 sends it")
        if final["nonce"] != both:
            raise AuthenticationFailedError("the nonce of another exchange")
        if _decode(final["channel"]) != self._first["header"].encode():
            raise AuthenticationFailedError("its header differs from the one in client-first")
        name = self._mechanism.hash_name
        messages = f"{self._first['bare']},{self._server_first},{final['unproven']}".encode()
        signature = hmac.digest(self._credential.stored_key, messages, name)
        client_key = _xor(signature, _decode(final["proof"]))
        is_proven = hmac.compare_digest(self._mechanism.hash(client_key).digest(), self._credential.stored_key)
        server_signature = hmac.digest(self._credential.server_key, messages, name)
        if not self._is_known and self.has_delegation_token:
            raise AuthenticationFailedError("there is no such delegation token, or it has expired")
        if not self._is_known:
            raise AuthenticationFailedError("there is no such user, or none with a credential for this mechanism")
        if not is_proven:
            raise AuthenticationFailedError("wrong password")
        self.is_complete = True
        return f"v={_encode(server_signature)}".encode()


def _requests_token(extensions: str) -> bool:
    """Return whether the extensions, each with a comma before it, have ``tokenauth=true``; the last one counts."""
    values = dict(each.partition("=")[::2] for each in extensions.split(",") if each)
    return values.get("tokenauth", "").lower() == "true"


class ScramSecret:
    """A client's name and password, with the last salted password: computing it takes milliseconds."""

    __slots__ = ("_password", "_salted", "_salted_for", "mechanism", "user")

    def __init__(self, mechanism: ScramMechanism, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._salted = b""
        self._salted_for: tuple[bytes, int] | None = None

    def salted(self, salt: bytes, iterations: int) -> bytes:
        if self._salted_for != (salt, iterations):
            self._salted = salted_password(self.mechanism, self._password, salt, iterations)
            self._salted_for = (salt, iterations)
        return self._salted


class ScramClient:
    """See `exchange.ClientExchange`.

    Args of the constructor:
        secret: name and password, or id and secret of a delegation token.
        nonce: a `new_nonce`.
        is_token: the secret is that of a delegation token.
    """

    __slots__ = ("_bare", "_nonce", "_secret", "_server_signature", "is_complete")

    def __init__(self, secret: ScramSecret, *, nonce: str, is_token: bool = False) -> None:
        self._secret = secret
        self._nonce = nonce
        self._bare = f"n={escape_name(secret.user)},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._server_signature: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See `exchange.ClientExchange.evaluate`."""
        text = decode_text(challenge, self._secret.mechanism.mechanism_name)
        if self._server_signature is None:
            return self._prove(text)
        final = _SERVER_FINAL.fullmatch(text)
        if final is None:
            raise AuthenticationFailedError("the server sent no SCRAM server-final message")
        if final["error"] is not None:
            raise AuthenticationFailedError(f"the server says: {final['error'][:200]}")
        if not hmac.compare_digest(_decode(final["signature"]), self._server_signature):
            raise AuthenticationFailedError("the server does not know the password itself")
        self.is_complete = True
        return None

    def _prove(self, text: str) -> bytes:
        first = _SERVER_FIRST.fullmatch(text)
        if first is None or not first["nonce"].startswith(self._nonce) or first["nonce"] == self._nonce:
            raise AuthenticationFailedError("the server sent no SCRAM server-first message for this exchange")
        iterations = int(first["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailedError(
                f"the server requests {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            )
        mechanism, salt = self._secret.mechanism, _decode(first["salt"])
        name = mechanism.hash_name
        salted = self._secret.salted(salt, iterations)
        known = credential(mechanism, salted, salt, iterations)
        unproven = f"c=biws,r={first['nonce']}"
        messages = f"{self._bare},{text},{unproven}".encode()
        self._server_signature = hmac.digest(known.server_key, messages, name)
        proof = _xor(hmac.digest(salted, b"Client Key", name), hmac.digest(known.stored_key, messages, name))
        return f"{unproven},p={_encode(proof)}".encode()


def _encode(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _decode(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise AuthenticationFailedError("a part of a SCRAM message that is not base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    """Return the XOR of both; if the lengths differ, the result is a proof that does not verify."""
    if len(one) != len(other):
        return bytes(len(one))
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
