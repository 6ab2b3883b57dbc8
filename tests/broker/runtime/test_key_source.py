"""Keys are read from files and fetched over https from allowed addresses; any failure is reported as a message."""

import http.server
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue

import pytest

from ottla.ports import KeyFetch
from ottla.runtime import key_source
from ottla.runtime.key_source import KEYS_BYTES_MAX, WebKeySource


def fetch(
    url: str, *, private: bool = True, context: ssl.SSLContext | None = None, read_timeout_ms: int = 2_000
) -> bytes | str:
    results: Queue[bytes | str] = Queue()
    source = WebKeySource(lambda function: function(), context=context)
    source.fetch_keys(KeyFetch(url, private, 2_000, read_timeout_ms), results.put)
    return results.get(timeout=10)


class IssuerHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        body = b"{}" if self.path == "/keys?a=1" else bytes(40 if self.path == "/drip" else KEYS_BYTES_MAX + 1)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/drip":
            with suppress(OSError):
                for _ in range(40):
                    self.wfile.write(b"x")
                    time.sleep(0.05)
            return
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Yield the URL of an https server on loopback, and a context that trusts it."""
    certificate, key = issue(tmp_path)
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), IssuerHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"https://localhost:{httpd.server_port}", ssl.create_default_context(cafile=str(certificate))
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def issue(directory: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for localhost."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "key.pem").write_bytes(private)
    return directory / "cert.pem", directory / "key.pem"


def test_key_set_is_read_from_a_file_url(tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_bytes(b"{}")

    assert fetch(f"file://{tmp_path}/a%20b.json") == b"{}"


def test_missing_or_too_large_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(KEYS_BYTES_MAX + 1))

    assert "No such file" in str(fetch(f"file://{tmp_path}/none"))
    assert "larger than" in str(fetch(f"file://{tmp_path}/large"))


def test_keys_are_fetched_over_https(server: tuple[str, ssl.SSLContext]) -> None:
    url, context = server

    assert fetch(f"{url}/keys?a=1", context=context) == b"{}"


@pytest.mark.parametrize(
    ("path", "words"),
    [("/moved", "responded 302"), ("/large", "larger than")],
    ids=["a-redirection", "too-much"],
)
def test_redirect_and_too_large_response_are_reported(
    server: tuple[str, ssl.SSLContext], path: str, words: str
) -> None:
    url, context = server

    assert words in str(fetch(f"{url}{path}", context=context))


def test_slow_response_times_out_as_a_whole(server: tuple[str, ssl.SSLContext]) -> None:
    url, context = server

    assert fetch(f"{url}/drip", context=context, read_timeout_ms=300) == "The read operation timed out"


def test_any_exception_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def choke(_: str) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(key_source, "urlsplit", choke)

    assert fetch("file:///keys") == "no such thing"


def test_server_with_untrusted_certificate_is_rejected(server: tuple[str, ssl.SSLContext]) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in str(fetch(f"{server[0]}/keys"))


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]"]
)
def test_private_address_is_not_connected_to(host: str) -> None:
    assert "not a public address" in str(fetch(f"https://{host}:1/keys", private=False))


def test_fetch_fails_if_no_thread_can_be_started(start_limit: Callable[[int], None]) -> None:
    start_limit(0)

    assert fetch("file:///none") == "can't start new thread"
