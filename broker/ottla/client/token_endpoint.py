"""`EndpointLogin`: a client that requests its tokens from the issuer, with a client id and secret.

    sasl.oauthbearer.token.endpoint.url=https://issuer.example/token
    sasl.oauthbearer.client.credentials.client.id=...
    sasl.oauthbearer.client.credentials.client.secret=...
    sasl.oauthbearer.scope=...

Options of the login module (``clientId``, ``clientSecret``, ``scope``) replace missing keys, and its ``ssl.*`` options
configure the verification of the issuer's certificate; the default is the system's authorities. A token is used for
four fifths of its lifetime; without ``expires_in`` each authentication requests one.

Source: RFC 6749, sections 2.3.1, 4.4 and 5; KIP-768, KIP-1139; ClientSecretRequestFormatter and
ClientCredentialsJwtRetriever of Apache Kafka 4.3. Unlike there the scope is form-encoded.
"""

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote_plus, urlencode

from ottla.client.errors import NoTokenError
from ottla.config.oauth_settings import TOKEN_URL
from ottla.config.tls_settings import TlsSettings, read_client_tls_settings
from ottla.errors import ConfigurationError
from ottla.quoting import quoted
from ottla.sasl.client_login import TokenLogin
from ottla.sasl.exchange import AuthenticationFailedError

_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a key
_SCOPE: Final = "sasl.oauthbearer.scope"
_OPTIONS: Final = {_ID: "clientId", _SECRET: "clientSecret", _SCOPE: "scope"}
_ENCODES: Final = "sasl.oauthbearer.header.urlencode"
_TIMES_MS: Final = {
    "sasl.login.connect.timeout.ms": 10_000,
    "sasl.login.read.timeout.ms": 10_000,
    "sasl.login.retry.backoff.ms": 100,
    "sasl.login.retry.backoff.max.ms": 10_000,
}
"""The first two have no default in Kafka, whose login may wait forever."""
_RESPONSE_BYTES_MAX: Final = 1024 * 1024
_USED_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EndpointSettings:
    """The issuer's address, the credentials and the timeouts. Its repr has no secret.

    Attributes:
        url: for messages; ``host``, ``port`` and ``target`` are its parts.
        tls: verifies the issuer's certificate; None: by the system's authorities.
        retry_s_max: limit of the retries of requests that were not rejected.
    """

    url: str
    host: str
    port: int
    target: str
    client_id: str
    client_secret: str
    scope: str
    encodes_header: bool
    tls: TlsSettings | None
    connect_timeout_s: float
    read_timeout_s: float
    backoff_s: float
    retry_s_max: float


class _Issued(NamedTuple):
    token: str
    lasts_s: float


class _RetriableError(Exception):
    """The issuer could not be reached, or is overloaded; a retry may help."""


def read_endpoint_settings(
    properties: Mapping[str, str], options: Mapping[str, str], parts: SplitResult
) -> EndpointSettings:
    """Parse the settings of the issuer at ``parts`` from a client's properties and its login module's options.

    Raises:
        ConfigurationError: names the key that is missing or wrong.
    """

    def text(key: str) -> str:
        return properties.get(key, "") or options.get(_OPTIONS[key], "")

    missing = [f"{key} (or {_OPTIONS[key]} in sasl.jaas.config)" for key in (_ID, _SECRET) if not text(key)]
    if missing:
        raise ConfigurationError(f"{TOKEN_URL} needs a client id and secret: set {' and '.join(missing)}")
    try:
        host, port = parts.hostname, parts.port or http.client.HTTPS_PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.username is not None:
        raise ConfigurationError(f"{TOKEN_URL} must be https://host[:port]/path, without user information")
    connect_s, read_s, backoff_s, retry_s_max = (_seconds(properties, key) for key in _TIMES_MS)
    tls_options = {key: value for key, value in options.items() if key.startswith("ssl.")}
    return EndpointSettings(
        url=parts._replace(query="").geturl(),
        host=host,
        port=port,
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        client_id=text(_ID),
        client_secret=text(_SECRET),
        scope=text(_SCOPE),
        encodes_header=properties.get(_ENCODES, "").strip().lower() == "true",
        tls=read_client_tls_settings(tls_options) if tls_options else None,
        connect_timeout_s=connect_s,
        read_timeout_s=read_s,
        backoff_s=backoff_s,
        retry_s_max=retry_s_max,
    )


def _seconds(properties: Mapping[str, str], key: str) -> float:
    text = properties.get(key, "").strip() or str(_TIMES_MS[key])
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ConfigurationError(f"{key}={text[:40]} must be a number of milliseconds above 0")
    return int(text) / 1_000


class EndpointLogin(TokenLogin):
    """Login with tokens that it requests from the issuer; ``now_s`` is a monotonic clock."""

    __slots__ = ("_issued", "_lock", "_now_s", "_settings", "_used_until_s")

    def __init__(self, settings: EndpointSettings, *, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(self._current)
        self._settings = settings
        self._now_s = now_s
        self._issued: _Issued | None = None
        self._used_until_s = 0.0
        self._lock = asyncio.Lock()

    def _current(self) -> str:
        if self._issued is None:
            raise AuthenticationFailedError("no token has been requested")
        return self._issued.token

    async def prepare(self) -> None:
        """See `Login.prepare`. Concurrent callers share one request to the issuer.

        Raises:
            NoTokenError: the issuer rejected the request, or cannot be reached.
            ConfigurationError: a file for the verification of its certificate cannot be used.
        """
        async with self._lock:
            if self._issued is not None and self._now_s() < self._used_until_s:
                return
            requested_s = self._now_s()
            self._issued = await self._request_until(requested_s + self._settings.retry_s_max)
            self._used_until_s = requested_s + self._issued.lasts_s * _USED_SHARE

    async def _request_until(self, end_s: float) -> _Issued:
        settings, backoff_s = self._settings, self._settings.backoff_s
        while True:
            try:
                async with asyncio.timeout(settings.connect_timeout_s + settings.read_timeout_s):
                    return await _request_on_own_thread(settings)
            except (_RetriableError, TimeoutError) as error:
                if self._now_s() + backoff_s >= end_s:
                    said = str(error) or "it did not respond in time"
                    raise NoTokenError(f"cannot get a token from {settings.url}: {said}") from error
            await asyncio.sleep(backoff_s)
            backoff_s *= 2


async def _request_on_own_thread(settings: EndpointSettings) -> _Issued:
    """Request a token off the loop, on a daemon thread: a cancelled caller or an exit need not wait for it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Issued] = loop.create_future()

    def settle(issued: _Issued | None, error: Exception | None) -> None:
        if result.done():
            return
        if issued is not None:
            result.set_result(issued)
        elif error is not None:
            result.set_exception(error)

    def run() -> None:
        issued, failure = None, None
        try:
            issued = _request_token(settings)
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, issued, failure)

    threading.Thread(target=run, name="ottla-token", daemon=True).start()
    return await result


def _request_token(settings: EndpointSettings) -> _Issued:
    connection = http.client.HTTPSConnection(
        settings.host, settings.port, timeout=settings.connect_timeout_s, context=_context(settings)
    )
    try:
        connection.connect()
        connection.sock.settimeout(settings.read_timeout_s)
        connection.request("POST", settings.target, _body(settings), _headers(settings))
        with connection.getresponse() as response:
            data = response.read(_RESPONSE_BYTES_MAX + 1)
    except ssl.SSLCertVerificationError as error:
        hint = "set ssl.truststore.type=PEM and ssl.truststore.location among the options of sasl.jaas.config"
        raise NoTokenError(
            f"the certificate of {settings.url} cannot be trusted: {error.verify_message}; {hint}"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _RetriableError(str(error) or type(error).__name__) from error
    finally:
        connection.close()
    if len(data) > _RESPONSE_BYTES_MAX:
        raise NoTokenError(f"{settings.url} gives no token: it is larger than {_RESPONSE_BYTES_MAX} bytes")
    if response.status == http.HTTPStatus.OK:
        return _read(settings.url, data)
    said = f"it responded with {response.status}{_error_text(data)}"
    if response.status == http.HTTPStatus.TOO_MANY_REQUESTS or response.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _RetriableError(said)
    raise NoTokenError(f"{settings.url} gives no token: {said}")


def _context(settings: EndpointSettings) -> ssl.SSLContext:
    if settings.tls is None:
        return ssl.create_default_context()
    from ottla.tls.contexts import make_contexts

    return make_contexts(settings.tls, opened=False).client


def _body(settings: EndpointSettings) -> str:
    scope = {"scope": settings.scope} if settings.scope else {}
    return urlencode({"grant_type": "client_credentials", **scope})


def _headers(settings: EndpointSettings) -> dict[str, str]:
    pair = (settings.client_id, settings.client_secret)
    joined = ":".join(map(quote_plus, pair) if settings.encodes_header else pair)
    return {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
        "Connection": "close",
    }


def _read(url: str, data: bytes) -> _Issued:
    fields = _object(data)
    token = fields.get("access_token")
    if not isinstance(token, str) or not token:
        raise NoTokenError(f"{url} gives no token: there is no access_token in its response")
    lasts_s = fields.get("expires_in")
    return _Issued(token, lasts_s if isinstance(lasts_s, int | float) and lasts_s > 0 else 0)


def _error_text(data: bytes) -> str:
    """Return the error code and description of an issuer's response (RFC 6749, section 5.2); empty without one."""
    fields = _object(data)
    said = [fields.get(key) for key in ("error", "error_description")]
    words = ": ".join(text for text in said if isinstance(text, str) and text)
    return f", {quoted(words)}" if words else ""


def _object(data: bytes) -> dict[str, object]:
    """Parse the JSON object of a response; return an empty one if it is none."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
