"""One connection to one broker: frames, correlation ids, version negotiation, timeouts; optionally TLS and SASL.

Requests may overlap: each waits for the response with its own correlation id. A connection that fails fails every
request that waits on it, and stays closed; `cluster` opens another.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self, TypeAlias, TypedDict, TypeVar, Unpack

from ottla import __version__
from ottla.client.connect_attempts import open_stream
from ottla.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ConnectionLostError,
    RequestTimeoutError,
    UnsupportedApiError,
)
from ottla.errors import ErrorCode, ProtocolError
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity
    from ottla.client.session import Session

RESPONSE_SIZE_BYTES_MAX = 1 << 30
CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0

_SIZE = struct.Struct(">i")
_CORRELATION_ID_MAX = 2**31 - 1
_LOGIN_HINT = (
    " at the first request; if that listener requires SASL, set security.protocol to SASL_PLAINTEXT or SASL_SSL"
)
ResponseT = TypeVar("ResponseT", bound=Message)
Route: TypeAlias = Callable[[Endpoint], Awaitable[Endpoint]]

ROUTE: ContextVar[Route | None] = ContextVar("ROUTE", default=None)
"""Maps an advertised address to the address to connect to, for a network that is not directly reachable.

Certificates are still checked against the advertised name. A route raises `BrokerUnreachableError` or OSError.
"""


class SendOptions(TypedDict, total=False):
    """Options of one request."""

    version: int
    """The exact version; default: the highest that both sides support."""
    highest: int
    """The highest version to use."""
    timeout_s: float
    """Timeout of the response; default: 30 s."""


class Connection:
    """An open, authenticated connection with the broker's API versions. `open` creates it, `close` ends it."""

    def __init__(
        self, endpoint: Endpoint, client_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        """API key to the lowest and highest version that the broker serves."""
        self.finalized_features: dict[str, int] = {}
        """Levels of the cluster when this connection was opened; empty for a broker before Kafka 2.7."""
        self._reader = reader
        self._writer = writer
        self._next_correlation_id = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._failure: ConnectionLostError | None = None
        self._session: Session | None = None
        self._first_after_greeting = 0
        self._read_task = asyncio.create_task(self._read_responses())

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        client_id: str = "ottla",
        timeout_s: float = CONNECT_TIMEOUT_S,
        security: "ClientSecurity | None" = None,
    ) -> Self:
        """Connect, request the broker's API versions and authenticate, all within ``timeout_s``.

        A token is requested from its issuer before that, with a timeout of its own.

        Raises:
            BrokerUnreachableError: no process listens there, or it is no Kafka broker.
            TlsFailedError: the TLS handshake failed.
            LoginFailedError: the broker rejected the authentication, or an issuer returned no token.
            ConfigurationError: a file of ``security`` cannot be used.
        """
        if security is not None and security.login is not None:
            await security.login.prepare()
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        context = None if security is None else security.tls_context()
        has_certificate = security is not None and security.has_certificate
        reader, writer = await _connect(endpoint, context, deadline_s, timeout_s, has_certificate=has_certificate)
        connection = cls(endpoint, client_id, reader, writer)
        try:
            async with asyncio.timeout_at(deadline_s):
                await connection._negotiate(timeout_s)
                if security is not None and security.login is not None:
                    await connection._log_in(security)
        except TimeoutError:
            await connection.close()
            raise BrokerUnreachableError(
                f"{endpoint} accepted a connection but said nothing for {timeout_s:g} s; is it a Kafka broker, and is "
                "it alive?"
            ) from None
        except (ConnectionLostError, ProtocolError) as error:
            await connection.close()
            raise _explain_non_kafka_peer(endpoint, error, context, has_certificate=has_certificate) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def peer_certificate(self) -> bytes | None:
        """The broker's certificate in DER; None without TLS."""
        tls: ssl.SSLObject | None = self._writer.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    def version_for(self, request: type[Message], *, highest: int | None = None) -> int:
        """Return the highest version that both sides support, at most ``highest``.

        Raises:
            UnsupportedApiError: there is none.
        """
        ours = request.versions
        last = ours.last - 1 if request.latest_version_unstable else ours.last
        if highest is not None:
            last = min(last, highest)
        served = self.versions.get(request.api_key)
        name = ApiKey(request.api_key).name
        if served is None:
            raise UnsupportedApiError(f"the broker at {self.endpoint} does not serve {name}")
        version = min(last, served[1])
        if version < max(ours.first, served[0]):
            raise UnsupportedApiError(
                f"the broker at {self.endpoint} serves {name} v{served[0]}-v{served[1]}, this client speaks "
                f"v{ours.first}-v{last}"
            )
        return version

    async def send(self, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]) -> ResponseT:
        """Send ``request`` and return its response, a ``response_type``.

        Raises:
            ConnectionLostError: the connection ended first.
            RequestTimeoutError: no response in time; a late one is dropped.
            ProtocolError: the response cannot be read; the connection is closed.
            UnsupportedApiError: no common version.
            LoginFailedError: the session had to be renewed, and the broker rejected the authentication.
        """
        if self._session is not None:
            await self._session.renew_if_due()
        return await self.send_within_session(request, response_type, **options)

    async def send_within_session(
        self, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]
    ) -> ResponseT:
        """Send as `send` does, without renewing the session: the requests of an authentication themselves use this."""
        version = options.get("version")
        if version is None:
            version = self.version_for(type(request), highest=options.get("highest"))
        limit_s = options.get("timeout_s", REQUEST_TIMEOUT_S)
        correlation_id = self._take_correlation_id()
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = waiting
        key = ApiKey(request.api_key)
        try:
            async with asyncio.timeout(limit_s):
                await self._write(request, version, correlation_id)
                frame = await waiting
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self.endpoint} did not respond to {key.name} v{version} within {limit_s:g} s"
            ) from None
        finally:
            self._waiting.pop(correlation_id, None)
            if waiting.done() and not waiting.cancelled():
                # After a failed write nothing awaits the future: retrieve its exception, or asyncio reports it.
                waiting.exception()
        try:
            _, position = ResponseHeader.decode_from(frame, response_header_version(key, version))
            if key is ApiKey.API_VERSIONS:
                version = _api_versions_version(frame, version, position)
            return response_type.decode(memoryview(frame), version, position)
        except ProtocolError as error:
            await self.close()
            raise ProtocolError(
                f"{self.endpoint} sent an invalid response to {key.name} v{version}: {error}"
            ) from error

    async def send_only(self, request: Message, *, highest: int | None = None) -> None:
        """Send a request without a response: Produce with acks=0.

        Raises:
            ConnectionLostError: the connection has ended.
            UnsupportedApiError: no common version.
            LoginFailedError: see `send`.
        """
        if self._session is not None:
            await self._session.renew_if_due()
        version = self.version_for(type(request), highest=highest)
        await self._write(request, version, self._take_correlation_id())

    async def close(self) -> None:
        """Close; requests that wait fail with ConnectionLostError."""
        self._fail(ConnectionLostError(f"the connection to {self.endpoint} was closed"))
        self._read_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._read_task
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _take_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_ID_MAX
        return correlation_id

    async def _write(self, request: Message, version: int, correlation_id: int) -> None:
        if self._failure is not None:
            raise self._failure
        key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=self.client_id,
        )
        payload = header.encode(request_header_version(key, version)) + request.encode(version)
        try:
            self._writer.write(_SIZE.pack(len(payload)) + payload)
            await self._writer.drain()
        except OSError as error:
            lost = ConnectionLostError(f"the connection to {self.endpoint} broke: {error}")
            self._fail(lost)
            raise lost from error

    async def _read_responses(self) -> None:
        correlation_id = -1
        try:
            while True:
                (size_bytes,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
                is_first = not self.versions
                if not _SIZE.size <= size_bytes <= RESPONSE_SIZE_BYTES_MAX or (is_first and _is_tls(size_bytes)):
                    raise ProtocolError(_describe_strange_size(size_bytes))
                frame = await self._reader.readexactly(size_bytes)
                (correlation_id,) = _SIZE.unpack_from(frame)
                waiting = self._waiting.get(correlation_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
        except asyncio.IncompleteReadError:
            may_want_login = self._session is None and self.versions and correlation_id < self._first_after_greeting
            self._fail(
                ConnectionLostError(f"{self.endpoint} closed the connection{_LOGIN_HINT * bool(may_want_login)}")
            )
        except (OSError, ProtocolError) as error:
            lost = ConnectionLostError(f"the connection to {self.endpoint} broke: {error}")
            lost.__cause__ = error
            self._fail(lost)

    def _fail(self, failure: ConnectionLostError) -> None:
        if self._failure is None:
            self._failure = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._failure)
        self._waiting.clear()
        self._writer.close()

    async def _negotiate(self, timeout_s: float) -> None:
        request = versions_request()
        version = request.versions.last
        response = await self.send_within_session(request, ApiVersionsResponse, version=version, timeout_s=timeout_s)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # An older broker responds with its versions of this very API, in version 0 (KIP-511).
            known = {api.api_key: api.max_version for api in response.api_keys}
            version = min(version, known.get(ApiKey.API_VERSIONS, 0))
            response = await self.send_within_session(
                request, ApiVersionsResponse, version=version, timeout_s=timeout_s
            )
        self._first_after_greeting = self._next_correlation_id
        self.finalized_features = {it.name: it.max_version_level for it in response.finalized_features}
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    async def _log_in(self, security: "ClientSecurity") -> None:
        from ottla.client.session import Session

        assert security.login is not None
        session = Session(self, security.login)
        await session.begin()
        self._session = session


def versions_request() -> ApiVersionsRequest:
    """Return a request for a broker's API versions, with this client's name and version (KIP-511)."""
    return ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)


def _api_versions_version(frame: bytes, version: int, position: int) -> int:
    """Return the version of an ApiVersions response: 0 if the broker does not support ``version`` (KIP-511)."""
    (error_code,) = struct.unpack_from(">h", frame, position)
    return 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version


async def _connect(
    endpoint: Endpoint,
    context: ssl.SSLContext | None,
    deadline_s: float,
    timeout_s: float,
    *,
    has_certificate: bool,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and do the TLS handshake if there is a ``context``; raises as `Connection.open`."""
    has_tcp = False
    try:
        async with asyncio.timeout_at(deadline_s):
            route = ROUTE.get()
            target = endpoint if route is None else await route(endpoint)
            reader, writer = await open_stream(target.host, target.port)
            has_tcp = True
            if context is not None:
                try:
                    await writer.start_tls(context, server_hostname=endpoint.host)
                except BaseException:
                    writer.close()
                    raise
            return reader, writer
    except TimeoutError:
        if has_tcp:
            raise BrokerUnreachableError(
                f"{endpoint} accepted a connection but did not complete the TLS handshake in {timeout_s:g} s; "
                "does that listener speak TLS?"
            ) from None
        raise BrokerUnreachableError(
            f"{endpoint} did not accept a connection within {timeout_s:g} s; is it the right address, and does a "
            "firewall let you through?"
        ) from None
    except OSError as error:
        if has_tcp:
            from ottla.client.tls_failures import tls_failure

            raise tls_failure(endpoint, error, has_certificate=has_certificate) from error
        raise BrokerUnreachableError(_explain_connection_error(endpoint, error)) from error


def _explain_non_kafka_peer(
    endpoint: Endpoint, error: Exception, context: ssl.SSLContext | None, *, has_certificate: bool
) -> ClientError:
    if isinstance(error.__cause__, ssl.SSLError):
        # Under TLS 1.3 a broker verifies the client's certificate after the client has completed the handshake.
        from ottla.client.tls_failures import tls_failure

        return tls_failure(endpoint, error.__cause__, has_certificate=has_certificate)
    how = "without" if context is None else "under"
    return BrokerUnreachableError(
        f"{endpoint} accepted a connection but did not respond as a Kafka broker {how} TLS: {error}"
    )


def _explain_connection_error(endpoint: Endpoint, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return (
            f"nothing listens at {endpoint}; start a node there (ottla up, ottla dev) or give another address with -b"
        )
    if isinstance(error, socket.gaierror) or error.errno is None:
        return f"cannot connect to {endpoint}: {error.strerror or error}"
    # asyncio replaces the message of the system with its own.
    return f"cannot connect to {endpoint}: {os.strerror(error.errno)}"


def _is_tls(size_bytes: int) -> bool:
    """Whether the bytes of a frame size are the start of a TLS alert or handshake."""
    start = _SIZE.pack(size_bytes)
    return start[0] in (0x15, 0x16) and start[1] == 0x03


def _describe_strange_size(size_bytes: int) -> str:
    if _SIZE.pack(size_bytes) == b"HTTP":
        return "it speaks HTTP, not Kafka; this may be the admin port"
    if _is_tls(size_bytes):
        return "it speaks TLS: set security.protocol to SSL, or SASL_SSL if it requires SASL"
    return f"it announces a response of {size_bytes} bytes"
