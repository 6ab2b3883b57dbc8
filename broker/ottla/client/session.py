"""`Session`: a client's login on one connection, renewed before it ends (KIP-368).

Between the first and the last request of a login a broker takes no other, so `Connection` asks `renew_if_due` before it
sends anything; whoever asks during a renewal waits for it. A connection that is idle is not renewed until it is used.
"""

import asyncio
import secrets
from typing import TYPE_CHECKING

from ottla.client.errors import LoginFailedError
from ottla.peers.login import LaneLogin
from ottla.sasl.client_login import Login
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.wire.codec import Message
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.client.connection import Connection


class Session:
    """See the module."""

    def __init__(self, connection: "Connection", login: Login) -> None:
        self._connection = connection
        self._source = login
        self._login = LaneLogin(login, connection.versions, secrets.randbelow)
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Log in, for the first time or anew, with what has been prepared for it.

        Raises:
            LoginFailedError: the broker refuses, does not offer the mechanism, or did not prove who it is.
            ConnectionLostError: the connection ended first.
        """
        try:
            request: Message | None = self._login.begin()
            while request is not None:
                if isinstance(request, SaslAuthenticateRequest):
                    answer: Message = await self._connection.send_within_session(request, SaslAuthenticateResponse)
                else:
                    answer = await self._connection.send_within_session(request, SaslHandshakeResponse)
                request = self._login.go_on(answer, self._now_ms())
        except AuthenticationFailedError as error:
            who = f" as {self._source.user}" if self._source.user else ""
            raise LoginFailedError(
                f"cannot log in at {self._connection.endpoint}{who} with {self._source.mechanism}: {error}"
            ) from error

    async def renew_if_due(self) -> None:
        """Return when the session lasts for another while; a renewal that fails closes the connection.

        Raises:
            As `begin`, and as `Login.prepare` does.
        """
        async with self._turn:
            renew_at_ms = self._login.renew_at_ms
            if renew_at_ms is None or self._now_ms() < renew_at_ms:
                return
            try:
                await self._source.prepare()
                await self.begin()
            except BaseException:
                await self._connection.close()
                raise

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)
