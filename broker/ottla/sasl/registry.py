"""`MECHANISMS`: every SASL mechanism that nodes serve and clients speak, one row each.

A mechanism is added here: its name, its exchanges on both sides, the Java class that its JAAS entry names, and which
settings of a listener it needs. The configuration, the listeners, the clients and the doctor read the rows; none of
them compares names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from ottla.sasl.exchange import ClientExchange, ServerExchange
from ottla.sasl.oauthbearer import OAUTHBEARER, OauthClient, OauthServer, ValidateToken
from ottla.sasl.plain import PLAIN, PasswordOf, PlainClient, PlainServer
from ottla.sasl.scram import (
    DelegationTokenCredential,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramSecret,
    ScramServer,
    new_nonce,
)

Randrange: TypeAlias = Callable[[int], int]
NewClientExchange: TypeAlias = Callable[[Randrange], ClientExchange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCredentials:
    """Sources of credentials with which the mechanisms of one listener authenticate clients.

    Attributes:
        password_of: the users of its JAAS entry.
        validate_token: checks tokens with the keys of the listener's issuer; None if no mechanism takes tokens.
        scram_credential_of: the credential of a user in the metadata.
        scram_decoy_of: the credential for a user that has none; see `ottla.sasl.scram_decoys`.
        delegation_token_of: the credential of a delegation token, given its id.
        randrange: draws nonces.
    """

    password_of: PasswordOf
    validate_token: ValidateToken | None
    scram_credential_of: Callable[[ScramMechanism, str], ScramCredential | None]
    scram_decoy_of: Callable[[ScramMechanism, str], ScramCredential]
    delegation_token_of: Callable[[ScramMechanism, str], DelegationTokenCredential | None]
    randrange: Randrange


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslMechanism:
    """One row.

    Attributes:
        name: as in RFC 4422's registry; what ``sasl.enabled.mechanisms`` and requests carry.
        login_module: the Java class that an entry of ``sasl.jaas.config`` names.
        new_server: starts the server's side of one exchange.
        with_password: given a user and a password, returns what starts the client's side; None if it takes no password.
            Called once per login, so that costly derivations from the password are done once.
        with_delegation_token: as ``with_password``, given the id of a delegation token and its secret; None if the
            mechanism takes none.
        with_token: starts the client's side with a token; None if the mechanism takes no token.
        has_jaas_users: its users are in the listener's own JAAS entry (``user_NAME=PASSWORD``), which it needs.
        has_scram_users: its users are in the metadata, as credentials that ``kafka-configs`` sets.
        has_issuer: its tokens are checked with an issuer's keys (``sasl.oauthbearer.*``), which it needs.
    """

    name: str
    login_module: str
    new_server: Callable[[ServerCredentials], ServerExchange]
    with_password: Callable[[str, str], NewClientExchange] | None = None
    with_delegation_token: Callable[[str, str], NewClientExchange] | None = None
    with_token: Callable[[str], ClientExchange] | None = None
    has_jaas_users: bool = False
    has_scram_users: bool = False
    has_issuer: bool = False


def _new_oauth_server(credentials: ServerCredentials) -> ServerExchange:
    assert credentials.validate_token is not None, "the configuration has required the issuer's keys"
    return OauthServer(credentials.validate_token)


def _scram(kind: ScramMechanism) -> SaslMechanism:
    def new_server(credentials: ServerCredentials) -> ServerExchange:
        return ScramServer(
            kind,
            credential_of=lambda user: credentials.scram_credential_of(kind, user),
            nonce=new_nonce(credentials.randrange),
            decoy_of=lambda user: credentials.scram_decoy_of(kind, user),
            delegation_token_of=lambda token_id: credentials.delegation_token_of(kind, token_id),
        )

    def with_password(user: str, password: str, *, is_token: bool = False) -> NewClientExchange:
        secret = ScramSecret(kind, user, password)
        return lambda randrange: ScramClient(secret, nonce=new_nonce(randrange), is_token=is_token)

    return SaslMechanism(
        name=kind.mechanism_name,
        login_module="org.apache.kafka.common.security.scram.ScramLoginModule",
        new_server=new_server,
        with_password=with_password,
        with_delegation_token=partial(with_password, is_token=True),
        has_scram_users=True,
    )


_ROWS: Final = (
    SaslMechanism(
        name=PLAIN,
        login_module="org.apache.kafka.common.security.plain.PlainLoginModule",
        new_server=lambda credentials: PlainServer(credentials.password_of),
        with_password=lambda user, password: lambda _: PlainClient(user, password),
        has_jaas_users=True,
    ),
    _scram(ScramMechanism.SCRAM_SHA_256),
    _scram(ScramMechanism.SCRAM_SHA_512),
    SaslMechanism(
        name=OAUTHBEARER,
        login_module="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
        new_server=_new_oauth_server,
        with_token=OauthClient,
        has_issuer=True,
    ),
)

MECHANISMS: Final[Mapping[str, SaslMechanism]] = {row.name: row for row in _ROWS}
"""By name, in the order in which error messages list them."""
