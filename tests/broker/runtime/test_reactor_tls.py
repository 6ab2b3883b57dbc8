"""The reactor under TLS: accepted and rejected certificates, records of every size, handshakes that never finish."""

import logging
import os
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from line_protocol import LINE, echo, read_all
from ottla.ports import Chunk, FileSlice
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.handshakes import HandshakeLimits
from ottla.types import Endpoint

Serve = Callable[..., Any]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls-1.2", "tls-1.3"])
def test_both_versions_are_served_and_client_without_certificate_has_no_subject(
    serve_secured: Serve, secured: Any, version: ssl.TLSVersion
) -> None:
    with serve_secured(echo, secured) as served:
        with served.connect(secured.client_context(version=version)) as sock:
            sock.sendall(b"hello\n")

            assert read_all(sock, 6) == b"hello\n"
        assert served.core.events[:2] == ["accepted on LINES", "secured for None"]
        assert served.metrics.handshakes["LINES"] == 1
        assert served.metrics.open_handshakes == 0


@pytest.mark.parametrize(
    ("enabled", "offered", "is_served"),
    [
        pytest.param("TLSv1.3", ssl.TLSVersion.TLSv1_2, False, id="too-old"),
        pytest.param("TLSv1.2", ssl.TLSVersion.TLSv1_3, False, id="too-new"),
        pytest.param("TLSv1.2", ssl.TLSVersion.TLSv1_2, True, id="as-enabled"),
    ],
)
def test_only_enabled_versions_are_served(
    serve_secured: Serve, new_secured: Serve, enabled: str, offered: ssl.TLSVersion, is_served: bool
) -> None:
    secured = new_secured(enabled_protocols=enabled)
    with serve_secured(echo, secured) as served:
        if is_served:
            served.connect(secured.client_context(version=offered)).close()
        else:
            with pytest.raises(ssl.SSLError, match=r"(?i)alert protocol version"):
                served.connect(secured.client_context(version=offered))
            served.wait_until(lambda: served.metrics.failed_handshakes["LINES"] == 1, "the failure is counted")


@pytest.mark.parametrize("suite", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"])
def test_only_named_ciphers_are_served(serve_secured: Serve, new_secured: Serve, suite: str) -> None:
    secured = new_secured(cipher_suites=suite)
    with serve_secured(echo, secured) as served, served.connect(secured.client_context()) as sock:
        assert sock.cipher()[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls-1.2", "tls-1.3"])
@pytest.mark.parametrize("auth", ["requested", "required"])
def test_client_has_the_subject_of_its_certificate(
    serve_secured: Serve, new_secured: Serve, authority: Any, auth: str, version: ssl.TLSVersion
) -> None:
    secured = new_secured(client_auth=auth)
    context = secured.client_context(authority.issue("CN=client,OU=tests,C=DE"), version=version)
    with serve_secured(echo, secured) as served, served.connect(context) as sock:
        sock.sendall(b"hello\n")
        read_all(sock, 6)

        assert "secured for CN=client,OU=tests,C=DE" in served.core.events


def test_certificate_is_not_requested_if_client_auth_is_none(
    serve_secured: Serve, secured: Any, authority: Any
) -> None:
    context = secured.client_context(authority.issue("CN=client"))
    with serve_secured(echo, secured) as served, served.connect(context) as sock:
        sock.sendall(b"hello\n")
        read_all(sock, 6)

        assert "secured for None" in served.core.events


def test_client_without_certificate_is_accepted_if_only_requested(serve_secured: Serve, new_secured: Serve) -> None:
    secured = new_secured(client_auth="requested")
    with serve_secured(echo, secured) as served, served.connect() as sock:
        sock.sendall(b"hello\n")

        assert read_all(sock, 6) == b"hello\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls-1.2", "tls-1.3"])
@pytest.mark.parametrize(
    ("shown", "message"),
    [
        pytest.param(None, "the client presented no certificate", id="none"),
        pytest.param("stranger", "the peer's certificate is not trusted", id="of-another-authority"),
        pytest.param("expired", "the peer's certificate is not trusted: certificate has expired", id="expired"),
    ],
)
def test_client_without_valid_certificate_is_rejected_with_an_alert(
    serve_secured: Serve,
    new_secured: Serve,
    new_authority: Serve,
    caplog: pytest.LogCaptureFixture,
    version: ssl.TLSVersion,
    shown: str | None,
    message: str,
) -> None:
    secured = new_secured(client_auth="required")
    issued = {
        None: None,
        "stranger": new_authority("Stranger").issue("CN=client"),
        "expired": secured.authority.issue("CN=client", days=(-10, -1)),
    }[shown]
    context = secured.client_context(issued, version=version)
    with serve_secured(echo, secured) as served:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"), served.connect(context) as sock:
            sock.recv(1)
        served.wait_until(lambda: len(served.core.events) == 2, "it is reported to the core")

    assert served.core.events[1].startswith("closed: the TLS handshake failed: " + message)
    assert "secured" not in str(served.core.events)
    assert f"on LINES failed: {message}" in caplog.text


def test_client_that_does_not_trust_this_node_is_logged_as_such(
    serve_secured: Serve, secured: Any, new_authority: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(cadata=new_authority("Stranger").pem)
    with serve_secured(echo, secured) as served:
        with pytest.raises(ssl.SSLCertVerificationError):
            served.connect(context)
        served.wait_until(lambda: served.metrics.failed_handshakes["LINES"] == 1, "the failure is counted")

    assert "does not trust the authority that signed this node's certificate" in caplog.text


@pytest.mark.parametrize(
    ("first", "message"),
    [
        pytest.param(
            b"\x00\x00\x00\x2a\x00\x12\x00\x04\x00\x00\x00\x01\x00\x07librdka", "a plaintext Kafka client", id="kafka"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this looks like HTTP on a TLS listener", id="http"),
        pytest.param(b"SSH-2.0-OpenSSH_9.9\r\n", "the client does not speak TLS", id="something-else"),
        pytest.param(b"\x16\x03\x01\x00\x05hello", "unexpected message", id="a-broken-hello"),
    ],
)
def test_bytes_that_are_not_tls_are_explained_in_the_log(
    serve_secured: Serve, secured: Any, caplog: pytest.LogCaptureFixture, first: bytes, message: str
) -> None:
    with serve_secured(echo, secured) as served, served.connect_plain() as sock:
        sock.sendall(first)
        while sock.recv(100):
            pass
        served.wait_until(lambda: len(served.core.events) == 2, "it is reported to the core")

    assert message in served.core.events[1]
    assert message in caplog.text


def test_many_failures_are_logged_in_few_lines(
    serve_secured: Serve, secured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_secured(echo, secured) as served:
        for _ in range(50):
            with served.connect_plain() as sock:
                sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
                sock.recv(100)
        served.wait_until(lambda: served.metrics.failed_handshakes["LINES"] == 50, "all are counted")

    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) < 25


@pytest.mark.parametrize("size", [1, 16_383, 16_384, 16_385, 300_000, 5_000_000])
def test_responses_of_every_size_arrive_completely(serve_secured: Serve, secured: Any, size: int) -> None:
    content = os.urandom(size)
    with serve_secured(lambda _: [content], secured) as served, served.connect() as sock:
        sock.sendall(b"go\n")

        assert read_all(sock, size) == content


def test_requests_in_one_record_are_all_served_in_order(serve_secured: Serve, secured: Any) -> None:
    # The core's buffer is smaller than a record: the rest has been decrypted, and no selector reports it.
    lines = b"".join(b"%04d\n" % number for number in range(3_000))
    with serve_secured(echo, secured) as served, served.connect() as sock:
        sock.sendall(lines)

        assert read_all(sock, len(lines)) == lines


def test_bytes_received_while_paused_are_read_after_resume(serve_secured: Serve, secured: Any) -> None:
    with serve_secured(echo, secured) as served, served.connect() as paused, served.connect() as other:
        paused.sendall(b"x" * 2_000 + b"\npause\n" + b"y" * 2_000 + b"\nlast\n")
        assert read_all(paused, 2_001) == b"x" * 2_000 + LINE
        served.wait_for("paused")
        other.sendall(b"go on\n")

        assert read_all(paused, 2_006) == b"y" * 2_000 + b"\nlast\n"


def test_many_small_pieces_and_file_slices_share_a_stream(serve_secured: Serve, secured: Any, tmp_path: Path) -> None:
    content = os.urandom(700_000)
    (tmp_path / "file").write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(tmp_path / "file"), read_only=True)

    def response(_: bytes) -> list[Chunk]:
        pieces: list[Chunk] = [bytes([number % 256]) * (number % 7 + 1) for number in range(2_000)]
        return [*pieces, FileSlice(file, 0, len(content)), b"|", memoryview(content)[:100_000], FileSlice(file, 5, 5)]

    expected = b"".join(chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in response(b""))
    with serve_secured(response, secured) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(expected))
    disk.close()

    assert received == expected


def test_outgoing_connection_checks_the_peers_name(serve_secured: Serve, secured: Any, new_line_core: Serve) -> None:
    with serve_secured(echo, secured) as served:
        reactor = served.new_reactor()
        core = new_line_core(reactor, lambda line: received.append(line) or [])
        received: list[bytes] = []
        core.greeting = b"hello\n"
        reactor.connect(Endpoint("localhost", served.port), "LINES")
        core.deadline_ms = SystemClock().monotonic_ms() + 500
        reactor.run(core)
        reactor.close()

    assert core.events[0] == "connected"
    assert received == [b"hello"]


@pytest.mark.parametrize(
    ("hosts", "algorithm", "outcome"),
    [
        pytest.param(("elsewhere.test",), "https", "closed: ", id="another-name"),
        pytest.param(("elsewhere.test",), "", "connected", id="another-name-unchecked"),
        pytest.param(("127.0.0.1",), "https", "connected", id="an-address"),
    ],
)
def test_server_for_another_name_is_rejected_unless_names_are_unchecked(
    serve_secured: Serve,
    new_secured: Serve,
    new_line_core: Serve,
    authority: Any,
    hosts: tuple[str, ...],
    algorithm: str,
    outcome: str,
) -> None:
    secured = new_secured()
    secured.use(authority.issue(hosts=hosts), endpoint_identification_algorithm=algorithm)
    with serve_secured(echo, secured) as served:
        reactor = served.new_reactor()
        core = new_line_core(reactor, echo)
        reactor.connect(Endpoint("127.0.0.1", served.port), "LINES")
        core.deadline_ms = SystemClock().monotonic_ms() + 500
        reactor.run(core)
        reactor.close()

    assert core.events[0].startswith(outcome)
    if outcome != "connected":
        assert "IP address mismatch" in core.events[0]


def test_handshake_beyond_its_deadline_is_closed(
    serve_secured: Serve, secured: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_secured(echo, secured, HandshakeLimits(deadline_ms=50)) as served, served.connect_plain() as sock:
        sock.sendall(b"\x16\x03\x01")

        assert sock.recv(1) == b""
        served.wait_until(lambda: served.metrics.failed_handshakes["LINES"] == 1, "the failure is counted")
    assert "not finished within 50 ms" in caplog.text


def test_silent_handshakes_are_closed_at_the_bound_for_active_clients(serve_secured: Serve, secured: Any) -> None:
    limits = HandshakeLimits(open_max=3, patience_ms=20, deadline_ms=60_000)
    with serve_secured(echo, secured, limits) as served:
        silent = [served.connect_plain() for _ in range(3)]
        served.wait_until(lambda: served.metrics.open_handshakes == 3, "all are open")
        with served.connect() as sock:
            sock.sendall(b"hello\n")
            response = read_all(sock, 6)
        ended = [sock.recv(1) for sock in silent]
        for sock in silent:
            sock.close()

    assert response == b"hello\n"
    assert ended == [b"", b"", b""]


def test_connection_storm_is_served_completely(serve_secured: Serve, secured: Any) -> None:
    limits = HandshakeLimits(open_max=5, patience_ms=10_000, deadline_ms=60_000)
    responses: list[bytes] = []
    with serve_secured(echo, secured, limits) as served:

        def request() -> None:
            with served.connect() as sock:
                sock.sendall(b"hello\n")
                responses.append(read_all(sock, 6))

        clients = [threading.Thread(target=request) for _ in range(30)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join(30)

    assert responses == [b"hello\n"] * 30


def test_open_connection_keeps_its_certificate_and_next_one_gets_the_new(
    serve_secured: Serve, secured: Any, authority: Any
) -> None:
    def serial(sock: Any) -> int:
        return int(sock.getpeercert()["serialNumber"], 16)

    with serve_secured(echo, secured) as served, served.connect() as old:
        secured.use(authority.issue("CN=renewed"))
        with served.connect() as new:
            old.sendall(b"still here\n")

            assert read_all(old, 11) == b"still here\n"
            assert serial(old) != serial(new)
            assert dict(entry[0] for entry in new.getpeercert()["subject"]) == {"commonName": "renewed"}


def test_close_sends_close_notify(serve_secured: Serve, secured: Any) -> None:
    with serve_secured(echo, secured) as served:
        raw = served.connect_plain()
        with secured.client_context().wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as sock:
            sock.sendall(b"last\nbye\n")

            assert read_all(sock, 100) == b"last\n"


@pytest.mark.parametrize("notifies", [True, False], ids=["close-notify", "no-close-notify"])
def test_close_by_the_peer_is_reported_once(serve_secured: Serve, secured: Any, notifies: bool) -> None:
    with serve_secured(echo, secured) as served:
        sock = served.connect()
        if notifies:
            sock.setblocking(False)
            with suppress(ssl.SSLWantReadError):
                sock.unwrap()
        else:
            sock.close()
        # The unread session tickets may turn its end into a reset.
        served.wait_until(lambda: len(served.core.events) == 3, "it is reported to the core")
        sock.close()
        with served.connect() as other:
            other.sendall(b"hello\n")
            read_all(other, 6)
            events = list(served.core.events)

    assert [event for event in events if event.startswith("closed: ")] == events[2:3]


def test_rejected_peer_that_keeps_sending_is_closed_soon(serve_secured: Serve, secured: Any) -> None:
    with serve_secured(echo, secured) as served, served.connect_plain() as sock, served.connect() as other:
        stop = threading.Event()

        def keep_sending() -> None:
            with suppress(OSError):
                while not stop.is_set():
                    sock.sendall(b"x" * 1_000_000)

        thread = threading.Thread(target=keep_sending)
        thread.start()
        served.wait_until(lambda: served.metrics.failed_handshakes["LINES"] == 1)
        other.sendall(b"hello\n")
        response = read_all(other, 6)
        stop.set()
        thread.join(30)

    assert response == b"hello\n"
