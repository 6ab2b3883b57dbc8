"""`Session`: the SASL session of one connection, renewed before it expires (KIP-368).

During an authentication a broker accepts no other request, so `Connection` calls `renew_if_due` before it sends any;
calls during a renewal wait for it. An idle connection is not renewed until its next use.
"""

import asyncio
import secrets
from typing import TYPE_CHECKING

from ottla.client.errors import LoginFailedError
from ottla.peers.sasl_client import SaslClient
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
        self._login = SaslClient(login, connection.versions, secrets.randbelow)
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Authenticate or reauthenticate with the prepared credentials.

        Raises:
            LoginFailedError: the broker rejected them, does not offer the mechanism, or failed to prove its identity.
            ConnectionLostError: the connection ended first.
        """
        try:
            request: Message | None = self._login.start()
            while request is not None:
                if isinstance(request, SaslAuthenticateRequest):
                    response: Message = await self._connection.send_within_session(request, SaslAuthenticateResponse)
                else:
                    response = await self._connection.send_within_session(request, SaslHandshakeResponse)
                request = self._login.continue_with(response, self._now_ms())
        except AuthenticationFailedError as error:
            who = f" as {self._source.user}" if self._source.user else ""
            raise LoginFailedError(
                f"cannot log in at {self._connection.endpoint}{who} with {self._source.mechanism}: {error}"
            ) from error

    async def renew_if_due(self) -> None:
        """Renew the session if it expires soon; a failed renewal closes the connection.

        Raises:
            As `begin`, and as `Login.prepare` does.
        """
        async with self._lock:
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
