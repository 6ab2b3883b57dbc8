"""`Login`: what one needs to log in elsewhere, a password or a token, and the exchange that does it."""

from collections.abc import Callable
from typing import Protocol

from ottla.sasl.exchange import ClientExchange
from ottla.sasl.oauthbearer import OAUTHBEARER, OauthClient
from ottla.sasl.plain import PlainClient
from ottla.sasl.scram import SCRAM_MECHANISMS, ScramClient, ScramSecret, new_nonce


class Login(Protocol):
    """Whatever one can log in with: a `ClientLogin` or a `TokenLogin`.

    Attributes:
        user: whom it names, for logs; empty where it does not say.
    """

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str: ...

    async def prepare(self) -> None:
        """Have at hand what a login shows; a client waits for it before each. Of a node it always is at hand."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        """Begin one login.

        Raises:
            AuthenticationFailedError: there is nothing to show at the moment, such as a token.
        """


class ClientLogin:
    """A name and a password, for PLAIN or one of `SCRAM_MECHANISMS`. Never prints itself."""

    __slots__ = ("_password", "_scram", "mechanism", "user")

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        scram = SCRAM_MECHANISMS.get(mechanism)
        self._scram = None if scram is None else ScramSecret(scram, user, password)

    async def prepare(self) -> None:
        """See `Login.prepare`: there is nothing to wait for."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        if self._scram is None:
            return PlainClient(self.user, self._password)
        return ScramClient(self._scram, nonce=new_nonce(randrange))


class TokenLogin:
    """A token, which ``current_token`` is asked for at every login, at once. Never prints itself."""

    __slots__ = ("_current_token",)

    def __init__(self, current_token: Callable[[], str]) -> None:
        self._current_token = current_token

    @property
    def mechanism(self) -> str:
        return OAUTHBEARER

    @property
    def user(self) -> str:
        return ""

    async def prepare(self) -> None:
        """See `Login.prepare`: there is nothing to wait for."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        return OauthClient(self._current_token().strip())
