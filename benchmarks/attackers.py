"""Crowds that mean ill, each in a process of its own that yields its core to whoever else wants it.

An attack opens connections, at once or at a steady rate, and does with each what it is named for until it is told to
stop. Its process runs where others leave a core (`benchmarks.cores`): node and honest client never wait for it to be
done with its own steps, only for what it makes the node do. Connections come from several addresses of 127.0.0.0/8.
"""

import base64
import contextlib
import errno
import os
import resource
import secrets
import selectors
import socket
import ssl
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from benchmarks import beside, cores, frames, large_requests
from benchmarks.either_system import MECHANISM
from benchmarks.logins import AUTHENTICATE, HANDSHAKE
from benchmarks.logins import frame as login_frame

LOAD_TOPIC: Final = "load"
LOAD_PARTITIONS: Final = 6
WIDE_TOPIC: Final = "wide"
_SOURCES: Final = 8
_BEGUN_PER_TURN_MAX: Final = 32
_TURN_S: Final = 0.005
_READ_BYTES: Final = 1 << 16
"""Little at a time: whoever else wants the core waits for the end of a call that copies."""
_SLOW_FRAME_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The addresses on which the node listens."""

    plaintext: tuple[str, int]
    tls: tuple[str, int]
    sasl: tuple[str, int]


class Peer:
    """One connection of an attack; ``on_event`` says what comes next, and False when it is over."""

    events = selectors.EVENT_READ

    def __init__(self, attack: "Attack", sock: socket.socket) -> None:
        self.attack = attack
        self.sock = sock

    def begin(self) -> None:
        """The connection is up."""

    def on_event(self) -> bool:
        return bool(self.sock.recv(65536))


class Idle(Peer):
    """Asks once which APIs there are, and then nothing more."""

    def begin(self) -> None:
        self.sock.send(frames.API_VERSIONS_REQUEST)


class Visit(Peer):
    """Asks which APIs there are, and hangs up."""

    def begin(self) -> None:
        self.sock.send(frames.API_VERSIONS_REQUEST)

    def on_event(self) -> bool:
        self.attack.counts["answered" if self.sock.recv(65536) else "refused"] += 1
        return False


class SlowFrame(Peer):
    """Announces a Produce of 1 MB and brings a byte a second."""

    def begin(self) -> None:
        self.sock.send(struct.pack(">ihhi", _SLOW_FRAME_BYTES, frames.PRODUCE, 7, 1))

    def trickle(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.send(b"x")


class Unread(Peer):
    """Asks again and again for what is large, and never reads."""

    events = selectors.EVENT_WRITE
    request = b""

    def begin(self) -> None:
        self._left = memoryview(self.request)

    def on_event(self) -> bool:
        sent = self.sock.send(self._left)
        self._left = self._left[sent:] or memoryview(self.request)
        return True


class UnreadMetadata(Unread):
    request = frames.metadata_request(WIDE_TOPIC)


class UnreadRecords(Unread):
    request = frames.fetch_request(LOAD_TOPIC, dict.fromkeys(range(LOAD_PARTITIONS), 0), 50 << 20)


class Pipelined(Peer):
    """Sends small requests without a pause, thousands of them ahead of their answers, and reads those."""

    events = selectors.EVENT_READ | selectors.EVENT_WRITE
    requests = frames.API_VERSIONS_REQUEST * 5_000

    def begin(self) -> None:
        self._left = memoryview(self.requests)

    def on_event(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self._left = self._left[self.sock.send(self._left) :] or memoryview(self.requests)
        size = self.sock.recv_into(Everything.scratch)
        self.attack.counts["MB"] += size
        return size > 0


class Everything(Peer):
    """Fetches all there is from the beginning, reads it as fast as it can, and begins anew."""

    request = UnreadRecords.request
    scratch = bytearray(_READ_BYTES)

    def begin(self) -> None:
        self._missing = 0
        self.sock.send(self.request)

    def on_event(self) -> bool:
        if self._missing == 0:
            size = self.sock.recv(4)
            if len(size) < 4:
                return False
            self._missing = struct.unpack(">i", size)[0]
            return True
        with memoryview(self.scratch) as view:
            count = self.sock.recv_into(view[: min(self._missing, _READ_BYTES)])
        self._missing -= count
        self.attack.counts["MB"] += count
        if self._missing == 0 and count:
            self.sock.send(self.request)
        return count > 0


class Repeated(Peer):
    """Sends one large request, reads its answer, and sends the next one."""

    events = selectors.EVENT_READ | selectors.EVENT_WRITE

    def begin(self) -> None:
        assert self.attack.large_client is not None, "an attack with such peers has one"
        self._requests = self.attack.large_client(self.attack.counts)
        self._left = memoryview(next(self._requests))
        self._start = b""
        self._missing = 0

    def on_event(self) -> bool:
        if self._left:
            self._left = self._left[self.sock.send(self._left) :]
            return True
        if self._missing == 0:
            size = self.sock.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return False
            self._missing = struct.unpack(">i", size)[0]
            return True
        with memoryview(Everything.scratch) as view:
            count = self.sock.recv_into(view[: min(self._missing, _READ_BYTES)])
            self._start += view[: min(count, large_requests.RESPONSE_START_BYTES - len(self._start))]
        self._missing -= count
        if self._missing == 0 and count:
            self.attack.counts["requests"] += 1
            self.attack.answered_s.append(time.perf_counter())
            self._left = memoryview(self._requests.send(self._start))
            self._start = b""
        return count > 0


class WrongPassword(Peer):
    """Logs in as somebody else each time, with SCRAM, and proves it wrongly."""

    def begin(self) -> None:
        self._nonce = secrets.token_hex(12)
        self._answers = 0
        name = MECHANISM.encode()
        self.sock.send(login_frame(HANDSHAKE, struct.pack(">h", len(name)) + name))

    def on_event(self) -> bool:
        answer = self.sock.recv(4_096)
        if not answer:
            self.attack.counts["refused"] += 1
            return False
        self._answers += 1
        if self._answers == 1:
            self._send(f"n,,n={'alice' if secrets.randbelow(2) else secrets.token_hex(4)},r={self._nonce}".encode())
        elif self._answers == 2:
            start = answer.index(b"r=" + self._nonce.encode())
            nonce = answer[start : answer.index(b",", start)]
            self._send(b"c=biws," + nonce + b",p=" + base64.b64encode(secrets.token_bytes(64)))
        return True

    def _send(self, token: bytes) -> None:
        self.sock.send(login_frame(AUTHENTICATE, struct.pack(">i", len(token)) + token))


class HalfLogin(Peer):
    """Announces the largest frame there may be before a login, brings one byte less, and waits until it is closed."""

    def begin(self) -> None:
        self.sock.send(struct.pack(">i", 512 * 1024) + struct.pack(">hhih", AUTHENTICATE, 1, 1, -1))
        self.sock.send(bytes(100 * 1024))


class HelloOnly(Peer):
    """Begins a TLS handshake as clients do, and never goes on."""

    def begin(self) -> None:
        self.sock.send(self.attack.hello)

    def on_event(self) -> bool:
        if self.sock.recv(65536):
            return True
        self.attack.counts["closed by the node"] += 1
        return False


class FullHandshake(Peer):
    """Takes a TLS handshake to its end; hangs up then unless ``stays``."""

    stays = False

    def begin(self) -> None:
        self._is_through = False
        self.sock = self.attack.context.wrap_socket(
            self.sock, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        self.on_event()

    def on_event(self) -> bool:
        try:
            if self._is_through:
                return bool(self.sock.recv(4_096))
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        self._is_through = True
        self.attack.counts["finished"] += 1
        return self.stays


class SecuredIdle(FullHandshake):
    stays = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An attack: to which door, by what kind of peer, how many at once, and how many new ones a second."""

    title: str
    peer: type[Peer]
    door: str = "plaintext"
    open_max: int
    rate_per_s: int
    topic: str | None = None
    """What it asks for."""
    is_standing: bool = False
    """Whether the attack is that they are there, not that they come."""
    large_request: str | None = None
    """Which of `large_requests.REQUESTS` its peers send."""
    metrics: tuple[str, ...]
    """Of the node's page, what tells of it."""


PLANS: Final = {
    **{
        name: Plan(
            title=f"10 clients that repeat {request.title}",
            peer=Repeated,
            open_max=10,
            rate_per_s=100,
            is_standing=True,
            large_request=name,
            metrics=("ottla_request_slices_total", "ottla_large_request_waits_total"),
        )
        for name, request in large_requests.REQUESTS.items()
    },
    "idle": Plan(
        title="10,000 idle connections",
        peer=Idle,
        open_max=10_000,
        rate_per_s=2_000,
        is_standing=True,
        metrics=("kafka_server_socket_server_metrics_connection_count",),
    ),
    "idle-tls": Plan(
        title="2,000 idle connections under TLS",
        peer=SecuredIdle,
        door="tls",
        open_max=2_000,
        rate_per_s=200,
        is_standing=True,
        metrics=("kafka_server_socket_server_metrics_connection_count", "ottla_tls_handshakes_total"),
    ),
    "connections": Plan(
        title="1,000 connections/s",
        peer=Visit,
        open_max=500,
        rate_per_s=1_000,
        metrics=("kafka_server_socket_server_metrics_connection_creation_total",),
    ),
    "slow-frames": Plan(
        title="1,000 frames of 1 MB, a byte a second each",
        peer=SlowFrame,
        open_max=1_000,
        rate_per_s=1_000,
        metrics=(
            "kafka_network_socketserver_memorypoolused",
            "ottla_connections_waiting_for_memory",
            "ottla_waits_for_memory_total",
            "ottla_connections_closed_for_slow_requests_total",
        ),
    ),
    "tls-unfinished": Plan(
        title="1,600 TLS handshakes/s that never finish",
        peer=HelloOnly,
        door="tls",
        open_max=4_000,
        rate_per_s=1_600,
        metrics=("ottla_tls_handshakes_open", "ottla_tls_handshakes_failed_total", "ottla_listener_pauses_total"),
    ),
    "tls-finished": Plan(
        title="200 TLS handshakes/s",
        peer=FullHandshake,
        door="tls",
        open_max=500,
        rate_per_s=200,
        metrics=("ottla_tls_handshakes_total",),
    ),
    "wrong-passwords": Plan(
        title="500 wrong passwords/s, for many users",
        peer=WrongPassword,
        door="sasl",
        open_max=1_000,
        rate_per_s=500,
        metrics=("kafka_server_socket_server_metrics_failed_authentication_total", "ottla_sasl_logins_open"),
    ),
    "half-logins": Plan(
        title="1,000 logins of 512 KiB that never end",
        peer=HalfLogin,
        door="sasl",
        open_max=1_000,
        rate_per_s=500,
        metrics=("ottla_sasl_logins_open", "ottla_sasl_logins_timed_out_total"),
    ),
    "unread-metadata": Plan(
        title="500 clients that ask for Metadata of 1,000 partitions and never read",
        peer=UnreadMetadata,
        topic=WIDE_TOPIC,
        open_max=500,
        rate_per_s=500,
        metrics=("ottla_unread_answer_bytes", "ottla_connections_closed_unread_total"),
    ),
    "unread-records": Plan(
        title="500 clients that ask for 300 MB of records and never read",
        peer=UnreadRecords,
        topic=LOAD_TOPIC,
        open_max=500,
        rate_per_s=500,
        metrics=("ottla_unread_answer_bytes", "ottla_connections_closed_unread_total"),
    ),
    "pipelined": Plan(
        title="5 clients that send ApiVersions without a pause",
        peer=Pipelined,
        open_max=5,
        rate_per_s=100,
        metrics=("kafka_network_requestmetrics_requests_total",),
    ),
    "everything": Plan(
        title="100 clients that fetch everything at once",
        peer=Everything,
        topic=LOAD_TOPIC,
        open_max=100,
        rate_per_s=100,
        metrics=("kafka_server_brokertopicmetrics_bytesout_total",),
    ),
}


class Attack:
    """One plan being carried out."""

    def __init__(self, plan: Plan, doors: Doors) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.hello = _client_hello(self.context)
        self.large_client: large_requests.Client | None = None
        self.answered_s: list[float] = []
        """When large requests were answered, by ``time.perf_counter``."""
        if plan.large_request is not None:
            self.large_client = large_requests.REQUESTS[plan.large_request].build()
        self._address: tuple[str, int] = getattr(doors, plan.door)
        self._selector = selectors.DefaultSelector()
        self._peers: set[Peer] = set()
        self._slow: deque[SlowFrame] = deque()
        self._began_s = time.perf_counter()
        self._begun = 0
        self._trickled_s = self._began_s

    def run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self.turn()
        for peer in self._peers:
            peer.sock.close()

    def turn(self) -> None:
        now_s = time.perf_counter()
        due = int((now_s - self._began_s) * self.plan.rate_per_s) - self._begun
        room = self.plan.open_max - len(self._peers)
        if due > 0 and room <= 0:
            self._begun += due  # not made up for later
        for _ in range(min(due, room, _BEGUN_PER_TURN_MAX)):
            self._begin()
        for key, _ in self._selector.select(_TURN_S):
            key.data()
        if self._slow and now_s - self._trickled_s >= 1:
            self._trickled_s = now_s
            for peer in self._slow:
                peer.trickle()

    def _begin(self) -> None:
        self._begun += 1
        sock = socket.socket()
        sock.setblocking(False)
        # The port is chosen when the address to connect to is known: many connections may share it then.
        sock.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        try:
            sock.bind((f"127.0.0.{2 + self._begun % _SOURCES}", 0))
            code = sock.connect_ex(self._address)
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in (0, errno.EINPROGRESS):
            self.counts[os.strerror(code)] += 1
            sock.close()
            return
        peer = self.plan.peer(self, sock)
        self._peers.add(peer)
        self._selector.register(sock, selectors.EVENT_WRITE, lambda: self._on_connected(peer))

    def _on_connected(self, peer: Peer) -> None:
        self._selector.unregister(peer.sock)
        try:
            peer.begin()
        except OSError as error:
            self._end(peer, error)
            return
        self.counts["connections"] += 1
        if isinstance(peer, SlowFrame):
            self._slow.append(peer)
        self._selector.register(peer.sock, peer.events, lambda: self._on_event(peer))

    def _on_event(self, peer: Peer) -> None:
        error: OSError | None = None
        try:
            if peer.on_event():
                return
        except BlockingIOError:
            return
        except OSError as caught:
            error = caught
        self._selector.unregister(peer.sock)
        self._end(peer, error)

    def _end(self, peer: Peer, error: OSError | None) -> None:
        if error is not None:
            self.counts["broken off"] += 1
        self._peers.discard(peer)
        if isinstance(peer, SlowFrame):
            with contextlib.suppress(ValueError):
                self._slow.remove(peer)
        peer.sock.close()


def _client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of an attack: what its peers did, when large requests were answered, the CPU seconds that it used."""

    counts: Counter[str]
    answered_s: list[float]
    cpu_s: float


def running(plan: Plan, doors: Doors) -> AbstractContextManager[beside.Beside[Outcome]]:
    """Attack from now on, until it is told to stop."""
    return beside.running(_work, plan, doors)


def _work(plan: Plan, doors: Doors, pipe: Connection) -> None:
    lift_descriptor_limit()
    cores.put_last()
    attack = Attack(plan, doors)
    pipe.send("ready")
    attack.run_until(pipe.poll)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime
    pipe.send(Outcome(counts=attack.counts, answered_s=attack.answered_s, cpu_s=cpu_s))


def lift_descriptor_limit() -> None:
    """Let this process, and those it starts, open as many sockets as the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
