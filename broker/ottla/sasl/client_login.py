"""`Login`: what one needs to log in elsewhere, a password or a token, and the exchange that does it."""

from collections.abc import Callable
from typing import Protocol

from ottla.sasl.exchange import ClientExchange
from ottla.sasl.oauthbearer import OAUTHBEARER
from ottla.sasl.registry import MECHANISMS


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
    """A user and a password, for a mechanism that takes them. Never prints itself."""

    __slots__ = ("_new_exchange", "mechanism", "user")

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        with_password = MECHANISMS[mechanism].with_password
        assert with_password is not None, f"{mechanism} takes no password"
        self._new_exchange = with_password(user, password)

    async def prepare(self) -> None:
        """See `Login.prepare`: there is nothing to wait for."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        return self._new_exchange(randrange)


class TokenLogin:
    """A token, which ``current_token`` is asked for at every login, at once. Never prints itself."""

    __slots__ = ("_current_token", "mechanism")

    def __init__(self, current_token: Callable[[], str], *, mechanism: str = OAUTHBEARER) -> None:
        self.mechanism = mechanism
        self._current_token = current_token

    @property
    def user(self) -> str:
        return ""

    async def prepare(self) -> None:
        """See `Login.prepare`: there is nothing to wait for."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        with_token = MECHANISMS[self.mechanism].with_token
        assert with_token is not None, f"{self.mechanism} takes no token"
        return with_token(self._current_token().strip())
