"""For every test: no claim is about wall-clock time, so Hypothesis keeps no deadline and no stopwatch either.

Nodes as processes get their ports from `free_port`, are started by `launch`, and get certificates from `authority`.

pytest-timeout ends a test by an exception, which waits for ever where the main thread is in a C library that does not
return. Such a process ends a while later, and says where each thread was.

Reports are cut: one of 2 GB, of a simulation that logged until its time limit, ends a worker of pytest-xdist, which
says neither which test failed nor that one did.
"""

import contextlib
import datetime
import faulthandler
import gc
import io
import ipaddress
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

_profile = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ottla", _profile, max_examples=50)
settings.register_profile("nightly", _profile, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ottla"))

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 30_000
"""Below the ports that the system hands out to clients: a node's port must be free again when it comes back."""

STUCK_AFTER = 1.2
"""The share of a test's time limit after which its process ends: it has not heard of the limit by then."""

PORTS_PER_RUN = 20
"""Runs that go on at the same time start so far from each other, by their process ids."""

REPORT_CHARACTERS_MAX = 1_000_000
"""Of the explanation of a failure, and of each kind of captured output."""

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    # While a test runs, descriptor 2 leads to where its output is kept, which is gone with the process.
    config.stash[_stderr] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_stderr])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from traversing collected tests, while their number grows and while they run.

    Each worker collects all of them: 22,000 took 40 s of CPU, 15 of these in the garbage collector.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Once for each test, not for each phase: it starts a thread, whose end has to be waited for on busy cores.
    _end_if_stuck(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    # After a failure pytest's own plugin cancels the time-out that is set: this one is for the rest of the test.
    if isinstance(node, pytest.Item):
        _end_if_stuck(node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.sections = [(name, _end_of(text)) for name, text in report.sections]
    if report.failed and len(explanation := report.longreprtext) > REPORT_CHARACTERS_MAX:
        report.longrepr = _end_of(explanation)
    return report


def _end_of(text: str) -> str:
    cut = len(text) - REPORT_CHARACTERS_MAX
    return text if cut <= 0 else f"[{cut:,} characters are cut]\n{text[cut:]}"


def _end_if_stuck(item: pytest.Item) -> None:
    """End this process when the test takes far longer than its time limit from now on."""
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0] if marker else item.config.getini("timeout") or 0)
    if limit_s:
        faulthandler.dump_traceback_later(limit_s * STUCK_AFTER, file=item.config.stash[_stderr], exit=True)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_works() -> Iterator[None]:
    """Let commands that tests start hear Ctrl-C: what a shell runs in the background inherits that it is ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture(scope="session")
def ports_of_worker() -> Callable[..., Iterator[int]]:
    """Return ``ports_of_worker(first, stop, step=1)``: this worker's share of the ports, one after the other.

    A port that one worker has probed and not yet opened must not be probed by another.
    """

    def generate(first: int, stop: int, step: int = 1) -> Iterator[int]:
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        share = (stop - first) // step // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        candidates = itertools.count(os.getpid() * PORTS_PER_RUN // step)
        return (first + (share * worker + candidate % share) * step for candidate in candidates)

    return generate


@pytest.fixture(scope="session")
def free_port(ports_of_worker: Callable[..., Iterator[int]]) -> Callable[[], int]:
    """Return a function that returns a port without a listener, another one each time."""
    candidates = ports_of_worker(FIRST_PORT, LAST_PORT)

    def find() -> int:
        for port in candidates:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((HOST, port))
                return port
        raise AssertionError("unreachable")

    return find


@pytest.fixture(scope="session")
def launch() -> Callable[[Sequence[str], Path], subprocess.Popen[bytes]]:
    """Return a function that starts a command, `bound`, in a session of its own, and appends to a file what it says."""
    return _launch


@pytest.fixture(scope="session")
def bound() -> list[str]:
    """Return words to put before a command: its process is killed when these tests end, however they do.

    A process that a time limit kills cleans up nothing. The list is empty on systems without setpriv.
    """
    return _bound()


def _launch(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as said:
        return subprocess.Popen(
            [*_bound(), *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )


def _bound() -> list[str]:
    if shutil.which("setpriv") is None:
        return []
    # The signal comes when the thread that started the process ends: that is to be the main thread. The shell checks
    # that the parent has not ended before the signal was requested.
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]


@dataclass(frozen=True)
class Issued:
    """A key and its certificate, both as PEM; the authority's is behind it in ``chain``."""

    key: str
    certificate: str
    chain: str

    @property
    def both(self) -> str:
        """The content of a PEM key store."""
        return self.key + self.chain


class Authority:
    """Signs certificates for tests, with keys that are quick to make."""

    def __init__(self, name: str = "Test CA") -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        self.key: Any = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate: Any = self._sign(self.name, self.key, (), (-1, 365), is_authority=True)

    @property
    def pem(self) -> str:
        return _pem(self.certificate)

    def issue(
        self,
        subject: str = "CN=node",
        *,
        hosts: tuple[str, ...] = ("localhost", HOST),
        days: tuple[int, int] = (-1, 365),
        key: Any = None,
        password: str | None = None,
    ) -> Issued:
        """Sign a certificate for ``subject`` (RFC 4514), valid from and until so many ``days`` from now.

        ``password`` encrypts the private key.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = key or ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(x509.Name.from_rfc4514_string(subject), key, hosts, days)
        encryption: Any = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        key_pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()
        return Issued(key_pem, _pem(certificate), _pem(certificate) + self.pem)

    def _sign(
        self, subject: Any, key: Any, hosts: tuple[str, ...], days: tuple[int, int], *, is_authority: bool = False
    ) -> Any:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            names = [
                x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                for host in hosts
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = certificate.public_bytes(Encoding.PEM).decode()
    return text


@pytest.fixture(scope="session")
def new_authority() -> Callable[..., Authority]:
    """Return a function that makes one more authority that signs certificates."""
    return Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The authority that most tests share."""
    return Authority()


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def runner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[list[str]], int]], Callable[..., Ran]]:
    """Return a function: from the `main` of a command to what runs a command line of it in this process, as `run`."""

    def of(main: Callable[[list[str]], int]) -> Callable[..., Ran]:
        def run_command(*arguments: str, stdin: bytes = b"") -> Ran:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
            capsys.readouterr()
            code = main(list(arguments))
            captured = capsys.readouterr()
            return Ran(code, captured.out, captured.err)

        return run_command

    return of


@pytest.fixture
def run(runner: Callable[..., Callable[..., Ran]]) -> Callable[..., Ran]:
    """Return what runs an `ottla` command line in this process: ``run(*arguments, stdin=b"")``; it has no terminal."""
    from ottla.cli.main import main

    return runner(main)
