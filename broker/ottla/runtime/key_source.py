"""`WebKeySource`: fetches issuers' keys over https, or from a file, on a thread of its own (`ports.KeySource`).

A name is resolved once, and the connection goes to the address that was checked: addresses that are not public, to
which an attacker may point a name, are rejected unless the configuration allows them. Redirects are not followed.
"""

import io
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.ports import KeyFetch

KEYS_BYTES_MAX = 1024 * 1024
_HTTPS_PORT = 443


class WebKeySource:
    """``post`` runs a function on the loop; ``context`` is for tests, the default trusts the system's authorities."""

    def __init__(self, post: Callable[[Callable[[], None]], None], *, context: ssl.SSLContext | None = None) -> None:
        self._post = post
        self._context = context

    def prepare(self) -> Iterator[None]:
        """Import the module that fetches need while the node is idle: it takes 15 ms, and needs descriptors."""
        import_module("http.client")
        yield

    def fetch_keys(self, fetch: KeyFetch, done: Callable[[bytes | str], None]) -> None:
        """See `ports.KeySource.fetch_keys`."""
        thread = threading.Thread(target=self._run, args=(fetch, done), name="ottla-keys", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            self._post(lambda: done(reason))

    def _run(self, fetch: KeyFetch, done: Callable[[bytes | str], None]) -> None:
        result: bytes | str
        try:
            result = self._fetch(fetch)
        except Exception as error:
            # Every exception has to be reported: until `done` is called, the keys are not fetched again.
            result = str(error) or type(error).__name__
        self._post(lambda: done(result))

    def _fetch(self, fetch: KeyFetch) -> bytes:
        from http.client import HTTPConnection, HTTPResponse

        parts = urlsplit(fetch.url)
        if parts.scheme == "file":
            with Path(unquote(parts.path)).open("rb") as file:
                return _bounded(file.read(KEYS_BYTES_MAX + 1))
        host, port = parts.hostname or "", parts.port or _HTTPS_PORT
        context = self._context or ssl.create_default_context()
        with (
            _connect(host, port, fetch) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            secured.settimeout(fetch.read_timeout_ms / 1_000)
            connection = HTTPConnection(host, port)
            connection.sock = secured
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"Accept": "application/json", "Connection": "close"})
            reader = _Deadline(secured, fetch.read_timeout_ms)
            response = HTTPResponse(reader, method="GET")  # type: ignore[arg-type]
            response.begin()
            if response.status != HTTPStatus.OK:
                raise ValueError(f"the server responded {response.status} {response.reason[:80]}")
            return _bounded(response.read(KEYS_BYTES_MAX + 1))


class _Deadline(io.RawIOBase):
    """Reader for `http.client` with one deadline for the whole response, however slowly its bytes arrive."""

    def __init__(self, sock: socket.socket, timeout_ms: int) -> None:
        self._sock = sock
        self._end_s = time.monotonic() + timeout_ms / 1_000

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("The read operation timed out")
        self._sock.settimeout(left_s)
        return self._sock.recv_into(buffer)


def _connect(host: str, port: int, fetch: KeyFetch) -> socket.socket:
    """Connect to the first address of ``host`` that is allowed and accepts.

    Raises:
        OSError: no such address accepts.
    """
    failure: OSError = OSError(f"{host} has no address")
    for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if not ip.is_global and not fetch.allows_private_addresses:
            failure = OSError(
                f"{host} is {ip}, which is not a public address; ottla.oauthbearer.private.addresses.allow=true allows "
                "it"
            )
            continue
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(fetch.connect_timeout_ms / 1_000)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


def _bounded(data: bytes) -> bytes:
    if len(data) > KEYS_BYTES_MAX:
        raise ValueError(f"the key set is larger than {KEYS_BYTES_MAX} bytes")
    return data
