"""Certificates of listeners while a node runs: new files and settings are used, unusable ones reported once."""

import logging
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.config.node_config import NodeConfig
from ottla.errors import ConfigurationError
from ottla.metrics.tls import TlsMetrics
from ottla.runtime.certificate_watch import CertificateWatch
from ottla.runtime.clock import SystemClock
from ottla.runtime.tls_contexts import ListenerContexts

DAY_MS = 86_400_000


class Certificates:
    """A node's listener SSL, its files in a folder, and the resulting contexts."""

    def __init__(self, folder: Path, authority: Any, **overrides: str) -> None:
        self.authority = authority
        self.keys = folder / "keys.pem"
        self.trusted = folder / "trusted.pem"
        self.keys.write_text(authority.issue().both)
        self.trusted.write_text(authority.pem)
        self.properties = {
            "process.roles": "broker",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "listeners": "SSL://127.0.0.1:9092",
            "security.inter.broker.protocol": "SSL",
            "log.dirs": "/data",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keys),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            **{f"ssl.{key.replace('_', '.')}": text for key, text in overrides.items()},
        }
        self.metrics = TlsMetrics()

    def open(self, now_ms: int | None = None) -> ListenerContexts:
        config = NodeConfig.from_properties(self.properties)
        self.contexts = ListenerContexts(
            config, self.metrics, now_ms=SystemClock().wall_ms() if now_ms is None else now_ms
        )
        return self.contexts

    def put(self, text: str) -> None:
        """Replace the key file atomically."""
        new = self.keys.with_suffix(".new")
        new.write_text(text)
        new.rename(self.keys)

    def served(self) -> bytes | None:
        """Return the certificate that new connections receive."""
        server = self.contexts.as_server("SSL")
        assert server is not None
        client = ssl.create_default_context(cadata=self.authority.pem)
        one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
        there = client.wrap_bio(one, two, server_hostname="localhost")
        here = server.wrap_bio(two, one, server_side=True)
        for _ in range(2):
            for side in (there, here):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return there.getpeercert(binary_form=True)


@pytest.fixture
def certificates(tmp_path: Path, authority: Any) -> Certificates:
    return Certificates(tmp_path, authority)


def test_changed_files_are_used_and_unchanged_ones_not_reloaded(certificates: Certificates) -> None:
    contexts = certificates.open()
    first = certificates.served()

    assert contexts.renew(certificates.properties) == []
    certificates.put(certificates.authority.issue().both)
    assert contexts.renew(certificates.properties) == ["SSL"]
    assert contexts.renew(certificates.properties) == []
    assert certificates.served() != first
    assert certificates.metrics.reloads == 1


def test_changed_settings_are_used(certificates: Certificates, tmp_path: Path) -> None:
    contexts = certificates.open()
    first = certificates.served()
    (tmp_path / "others.pem").write_text(certificates.authority.issue().both)
    changed = {"listener.name.ssl.ssl.keystore.location": str(tmp_path / "others.pem")}

    assert contexts.renew({**certificates.properties, **changed}) == ["SSL"]
    assert certificates.served() != first


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda it: it.authority.issue().key + it.authority.issue().chain, id="key-of-another"),
        pytest.param(lambda it: "half a file", id="half-a-file"),
        pytest.param(lambda it: it.authority.issue("CN=somebody-else").both, id="another-name"),
        pytest.param(lambda it: it.authority.issue(hosts=("localhost",)).both, id="fewer-names"),
    ],
)
def test_unusable_certificate_is_reported_once_and_the_old_one_stays(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, broken: Callable[[Certificates], str]
) -> None:
    contexts = certificates.open()
    first = certificates.served()
    certificates.put(broken(certificates))

    looks = [contexts.renew(certificates.properties) for _ in range(5)]

    assert looks == [[]] * 5
    assert certificates.served() == first
    assert certificates.metrics.failed_reloads == 1
    assert caplog.text.count("new certificates of listener SSL cannot be used, it keeps its current ones") == 1


def test_path_in_settings_cannot_forge_a_log_line(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    contexts = certificates.open()
    altered = {**certificates.properties, "ssl.keystore.location": "/nowhere\n2026-01-01T00:00:00.000Z ERROR forged"}
    for _ in range(3):
        contexts.renew(altered)

    (line,) = [record.getMessage() for record in caplog.records if "certificates" in record.getMessage()]
    assert "/nowhere\\n2026" in line
    assert line.isprintable()


def test_partially_written_file_is_read_again_without_a_report(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = certificates.open()
    whole = certificates.authority.issue().both
    certificates.put(whole[:100])

    assert contexts.renew(certificates.properties) == []
    certificates.put(whole)
    assert contexts.renew(certificates.properties) == ["SSL"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_repaired_file_is_used_after_the_report(certificates: Certificates) -> None:
    contexts = certificates.open()
    certificates.put("broken")
    for _ in range(3):
        contexts.renew(certificates.properties)
    certificates.put(certificates.authority.issue().both)

    assert contexts.renew(certificates.properties) == ["SSL"]


@pytest.mark.parametrize(
    ("allowed", "subject", "hosts"),
    [
        pytest.param({"allow_dn_changes": "true"}, "CN=new", ("localhost", "127.0.0.1"), id="another-name"),
        pytest.param({"allow_san_changes": "true"}, "CN=node", ("localhost",), id="fewer-names"),
        pytest.param({}, "CN=node", ("localhost", "127.0.0.1", "more.test"), id="more-names-need-no-leave"),
    ],
)
def test_certificate_for_other_names_needs_permission(
    tmp_path: Path, authority: Any, allowed: dict[str, str], subject: str, hosts: tuple[str, ...]
) -> None:
    certificates = Certificates(tmp_path, authority, **allowed)
    contexts = certificates.open()
    certificates.put(authority.issue(subject, hosts=hosts).both)

    assert contexts.renew(certificates.properties) == ["SSL"]


def test_inter_broker_listener_must_trust_itself(certificates: Certificates, new_authority: Callable[..., Any]) -> None:
    certificates.trusted.write_text(new_authority("Stranger").pem)

    with pytest.raises(
        ConfigurationError, match="the inter-broker listener, and it does not trust its own certificate"
    ):
        certificates.open()


@pytest.mark.parametrize(
    ("days", "message"),
    [
        pytest.param((-2, -1), "has expired: clients reject it", id="expired"),
        pytest.param((2, 90), "is not valid before", id="not-yet"),
        pytest.param((-1, 29), "expires in 28 days", id="near"),
        pytest.param((-1, 32), "", id="far"),
    ],
)
def test_upcoming_expiry_is_reported_once_a_day(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, days: tuple[int, int], message: str
) -> None:
    certificates.keys.write_text(certificates.authority.issue(days=days).both)
    now_ms = SystemClock().wall_ms()
    contexts = certificates.open(now_ms)
    for later_ms in (1, DAY_MS - 1, DAY_MS):
        contexts.warn_of_expiry(now_ms + later_ms)

    lines = [record.message for record in caplog.records if "the certificate of listener SSL" in record.message]
    assert len(lines) == (2 if message else 0)
    assert all(message.split(" in ", maxsplit=1)[0] in line for line in lines)
    if message:
        assert message in lines[0]


def test_expiry_of_a_certificate_is_a_metric(certificates: Certificates) -> None:
    certificates.open()
    ends_ms = certificates.metrics.certificates_expire_at_ms["SSL"]

    assert 363 * DAY_MS < ends_ms - SystemClock().wall_ms() < 366 * DAY_MS


def test_ciphers_of_no_enabled_version_are_rejected(tmp_path: Path, authority: Any) -> None:
    certificates = Certificates(
        tmp_path, authority, enabled_protocols="TLSv1.3", cipher_suites="ECDHE-ECDSA-AES128-GCM-SHA256"
    )
    with pytest.raises(ConfigurationError, match=r"has none for ssl\.enabled\.protocols=TLSv1\.3"):
        certificates.open()


def test_unknown_ciphers_are_rejected(tmp_path: Path, authority: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.cipher\.suites=NONSENSE has no cipher"):
        Certificates(tmp_path, authority, cipher_suites="NONSENSE").open()


def test_watch_applies_new_settings_at_once_and_stops_on_request(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = certificates.open()
    taken: list[dict[str, str]] = []
    done = threading.Event()
    contexts.renew = lambda properties: (taken.append(dict(properties)), done.set())  # type: ignore[assignment,method-assign]
    watch = CertificateWatch(contexts, SystemClock(), certificates.properties, interval_s=600)
    watch.start()
    watch.use({"new": "settings"})

    assert done.wait(30)
    watch.stop()
    assert taken == [{"new": "settings"}]
