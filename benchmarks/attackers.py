"""Attackers: hostile connections from a process of its own, which runs as idle work.

An attack opens connections, at once or at a steady rate (`benchmarks.attack_plans`), and runs a peer on each
(`benchmarks.attack_peers`) until it is stopped. Its process has the lowest priority (`benchmarks.cores`): node and
honest client never wait for its own work, only for the load that it causes in the node. Connections come from several
addresses of 127.0.0.0/8.
"""

import contextlib
import errno
import os
import resource
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from benchmarks import background_process, cores, large_requests
from benchmarks.attack_peers import Peer, SlowFrame
from benchmarks.attack_plans import Plan

_SOURCES: Final = 8
_STARTED_PER_SLICE_MAX: Final = 32
_SLICE_S: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Addresses of the node's listeners."""

    plaintext: tuple[str, int]
    tls: tuple[str, int]
    sasl: tuple[str, int]


class Attack:
    """Execution of one plan."""

    def __init__(self, plan: Plan, listeners: Listeners) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.hello = _client_hello(self.context)
        self.large_client: large_requests.Client | None = None
        self.served_at_s: list[float] = []
        """When large requests were served, by ``time.perf_counter``."""
        if plan.large_request is not None:
            self.large_client = large_requests.REQUESTS[plan.large_request].build()
        self._address: tuple[str, int] = getattr(listeners, plan.listener)
        self._selector = selectors.DefaultSelector()
        self._peers: set[Peer] = set()
        self._slow: deque[SlowFrame] = deque()
        self._started_s = time.perf_counter()
        self._started_count = 0
        self._trickled_s = self._started_s

    def run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self.run_once()
        for peer in self._peers:
            peer.sock.close()

    def run_once(self) -> None:
        now_s = time.perf_counter()
        due = int((now_s - self._started_s) * self.plan.rate_per_s) - self._started_count
        free = self.plan.open_max - len(self._peers)
        if due > 0 and free <= 0:
            self._started_count += due  # not caught up later
        for _ in range(min(due, free, _STARTED_PER_SLICE_MAX)):
            self._connect()
        for key, _ in self._selector.select(_SLICE_S):
            key.data()
        if self._slow and now_s - self._trickled_s >= 1:
            self._trickled_s = now_s
            for peer in self._slow:
                peer.trickle()

    def _connect(self) -> None:
        self._started_count += 1
        sock = socket.socket()
        sock.setblocking(False)
        # The port is chosen when the address to connect to is known: many connections may share it then.
        sock.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        try:
            sock.bind((f"127.0.0.{2 + self._started_count % _SOURCES}", 0))
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
    """Outcome of an attack: its peers' counts, when large requests were served, its CPU seconds."""

    counts: Counter[str]
    served_at_s: list[float]
    cpu_s: float


def running(plan: Plan, listeners: Listeners) -> AbstractContextManager[background_process.BackgroundProcess[Outcome]]:
    """Attack in a process of its own, until it is stopped."""
    return background_process.running(_work, plan, listeners)


def _work(plan: Plan, listeners: Listeners, pipe: Connection) -> None:
    lift_descriptor_limit()
    cores.put_last()
    attack = Attack(plan, listeners)
    pipe.send("ready")
    attack.run_until(pipe.poll)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime
    pipe.send(Outcome(counts=attack.counts, served_at_s=attack.served_at_s, cpu_s=cpu_s))


def lift_descriptor_limit() -> None:
    """Raise the limit of open sockets of this process, and of those it starts, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
