"""`Login`: what a client authenticates with, a password or a token, and the SASL exchange for it."""

from collections.abc import Callable
from typing import Protocol

from ottla.sasl.exchange import ClientExchange
from ottla.sasl.oauthbearer import OAUTHBEARER
from ottla.sasl.registry import MECHANISMS


class Login(Protocol):
    """Credentials that a client authenticates with: a `ClientLogin` or a `TokenLogin`.

    Attributes:
        user: the user, for logs; empty if it is not known, as with a token.
    """

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str: ...

    async def prepare(self) -> None:
        """Obtain the credentials; a client awaits this before each authentication. A node always has them."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        """Start one exchange.

        Raises:
            AuthenticationFailedError: no credentials are available at the moment, for instance no token.
        """


class ClientLogin:
    """A user and a password, for a mechanism that takes them; or a delegation token, by its id and secret.

    Its repr shows no secret.
    """

    __slots__ = ("_new_exchange", "mechanism", "user")

    def __init__(self, mechanism: str, user: str, password: str, *, is_delegation_token: bool = False) -> None:
        self.mechanism = mechanism
        self.user = user
        row = MECHANISMS[mechanism]
        new_exchange = row.with_delegation_token if is_delegation_token else row.with_password
        assert new_exchange is not None, f"{mechanism} does not take such a login"
        self._new_exchange = new_exchange(user, password)

    async def prepare(self) -> None:
        """See `Login.prepare`: there is nothing to wait for."""

    def new_exchange(self, randrange: Callable[[int], int]) -> ClientExchange:
        return self._new_exchange(randrange)


class TokenLogin:
    """A token, which ``current_token`` returns at once for each authentication. Its repr shows no secret."""

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
