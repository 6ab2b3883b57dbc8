"""`DelegationTokens`: the secrets of the tokens in the metadata, for logins and for the APIs that name a token by them.

A token's HMAC is HMAC-SHA-512 of its id with `delegation.token.secret.key`, which all nodes of a cluster share; its
base64 is the password of logins with SCRAM. Nothing of that is in the metadata.
Source: DelegationTokenManager, DelegationTokenCache, DelegationTokenPublisher of Apache Kafka 4.3.
"""

import base64
import hmac
from collections import OrderedDict
from typing import Final

from ottla.metadata.delegation_tokens import DelegationToken, DelegationTokensImage
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.ports import Clock, Random
from ottla.sasl.scram import (
    ITERATIONS_MIN,
    DelegationTokenCredential,
    ScramCredential,
    ScramMechanism,
    credential,
    new_salt,
    salted_password,
)

_CREDENTIALS_MAX: Final = 4_096
"""Cached; deriving one takes a millisecond or two, by design of SCRAM."""


class DelegationTokens:
    """A `MetadataPublisher`; ``secret`` is delegation.token.secret.key, None or empty where tokens are not enabled."""

    def __init__(self, secret: str | None, clock: Clock, random: Random) -> None:
        self._secret = (secret or "").encode()
        self._clock = clock
        self._random = random
        self._image = DelegationTokensImage()
        self._ids_by_hmac: dict[bytes, str] = {}
        self._credentials: OrderedDict[tuple[ScramMechanism, str], ScramCredential] = OrderedDict()

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret)

    def hmac(self, token_id: str) -> bytes:
        """Return the secret of a token, 64 bytes."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def id_of(self, secret: bytes) -> str | None:
        """Return the id of the committed token with this HMAC; None if there is none."""
        return self._ids_by_hmac.get(secret)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note created and removed tokens."""
        self._image = image.delegation_tokens
        if not self.is_enabled:
            return
        for token_id, token in delta.delegation_tokens.changes.items():
            if token is not None:
                self._ids_by_hmac[self.hmac(token_id)] = token_id
            else:
                self._ids_by_hmac.pop(self.hmac(token_id), None)
                for mechanism in ScramMechanism:
                    self._credentials.pop((mechanism, token_id), None)

    def credential_of(self, mechanism: ScramMechanism, token_id: str) -> DelegationTokenCredential | None:
        """Return the credential of a token; None if it does not exist or has expired.

        Kafka lets expired tokens log in until the controller removes them, to sessions that end at once.
        """
        token = self._image.tokens.get(token_id)
        if not self.is_enabled or token is None or token.is_expired(self._clock.wall_ms()):
            return None
        _, _, owner = token.owner.partition(":")
        return DelegationTokenCredential(owner, self._credential(mechanism, token), token.expiry_ms)

    def _credential(self, mechanism: ScramMechanism, token: DelegationToken) -> ScramCredential:
        key = (mechanism, token.token_id)
        known = self._credentials.get(key)
        if known is None:
            password = base64.b64encode(self.hmac(token.token_id)).decode()
            salt = new_salt(self._random.randrange)
            salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
            known = self._credentials[key] = credential(mechanism, salted, salt, ITERATIONS_MIN)
            if len(self._credentials) > _CREDENTIALS_MAX:
                self._credentials.popitem(last=False)
        self._credentials.move_to_end(key)
        return known
