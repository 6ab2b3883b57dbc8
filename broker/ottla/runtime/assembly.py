"""A node on the real world: reactor, disk, clock, admin server and signals around `node.node.Node`.

Source: KafkaRaftServer for the order of things; exit code 0 after an orderly shutdown, 1 otherwise.
"""

import gc
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING

from ottla.admin.server import AdminServer, open_admin_listener
from ottla.config.listeners import Listener
from ottla.config.node_config import NodeConfig
from ottla.config.tls_settings import listeners_with_tls
from ottla.errors import ConfigurationError
from ottla.handlers.catalog import import_handlers
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.tls import TlsMetrics
from ottla.node import settings
from ottla.node.node import Node
from ottla.runtime.background import BackgroundThreads
from ottla.runtime.cgroup_memory import CgroupMemory
from ottla.runtime.chance import SystemRandom
from ottla.runtime.clock import SystemClock
from ottla.runtime.descriptor_limit import lift_descriptor_limit, make_descriptor_table
from ottla.runtime.descriptor_reserve import SIZE as RESERVE_SIZE
from ottla.runtime.descriptor_reserve import DescriptorReserve
from ottla.runtime.disk import OsDisk
from ottla.runtime.key_source import WebKeySource
from ottla.runtime.link import SocketOptions
from ottla.runtime.process_memory import ProcessMemory
from ottla.runtime.reactor import Reactor

if TYPE_CHECKING:
    from ottla.runtime.certificate_watch import CertificateWatch
    from ottla.runtime.handshakes import Handshakes
    from ottla.runtime.tls_contexts import ListenerContexts

logger = logging.getLogger(__name__)

_GC_THRESHOLDS = (5_000, 200, 20)
"""Few at a time: the loop stands still meanwhile, a millisecond or two for so many new objects."""


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A running node, as its starter sees it; safe to use from any thread."""

    node: Node
    listeners: tuple[Listener, ...]
    """The doors with the ports that they really have."""
    stop: Callable[[], None]
    """Begin an orderly shutdown."""


def run_node(config: NodeConfig, *, on_ready: Callable[[NodeHandle], None] | None = None) -> int:
    """Run a node until SIGTERM, SIGINT or `NodeHandle.stop`; return the exit code.

    A second signal stops without handing leadership over. ``on_ready`` is called on the loop once the node serves
    clients; it must not block.

    Raises:
        OttlaError: the node cannot start: its configuration, its directories or its addresses are wrong. Where an
            address is in use, an OSError that says so is the cause, and nothing has been opened.
    """
    make_descriptor_table(limit := lift_descriptor_limit())
    descriptor_limit = limit if limit > 0 else settings.UNLIMITED_DESCRIPTORS
    clock = SystemClock()
    tls = _make_tls(config, clock)
    metrics = NetworkMetrics()
    use = CgroupMemory().use()
    options = _socket_options(config, None if use is None else use.limit_bytes)
    reactor = Reactor(clock, options, None if tls is None else tls.handshakes, metrics)
    admin_door = None
    try:
        listeners = _open_doors(config, reactor)
        if config.ottla_admin_listener is not None:
            admin_door = open_admin_listener(config.ottla_admin_listener)
        run = _Run(
            config,
            clock,
            reactor,
            metrics,
            tls,
            on_ready,
            listeners=listeners,
            admin_door=admin_door,
            descriptor_limit=descriptor_limit,
        )
        return run.until_stopped()
    finally:
        reactor.close()
        if admin_door is not None:
            admin_door.close()


@dataclass(frozen=True, slots=True)
class _Tls:
    """What a node has where at least one of its listeners is under TLS."""

    metrics: TlsMetrics
    contexts: "ListenerContexts"
    handshakes: "Handshakes"
    watch: "CertificateWatch"


def _make_tls(config: NodeConfig, clock: SystemClock) -> _Tls | None:
    """Read the certificates. Without TLS none of what it takes is even imported.

    Raises:
        ConfigurationError: they cannot be used.
    """
    if not listeners_with_tls(config):
        return None
    from ottla.runtime.certificate_watch import CertificateWatch
    from ottla.runtime.handshakes import Handshakes
    from ottla.runtime.tls_contexts import ListenerContexts

    metrics = TlsMetrics()
    contexts = ListenerContexts(config, metrics, now_ms=clock.wall_ms())
    handshakes = Handshakes(clock, contexts, metrics)
    return _Tls(metrics, contexts, handshakes, CertificateWatch(contexts, clock, config.originals))


def _accept(_: Mapping[str, str]) -> None:
    """Where nothing is under TLS, no certificate is wrong."""


class _Run:
    """One node's run, from the first open door to the last sync."""

    def __init__(
        self,
        config: NodeConfig,
        clock: SystemClock,
        reactor: Reactor,
        metrics: NetworkMetrics,
        tls: _Tls | None,
        on_ready: Callable[[NodeHandle], None] | None,
        *,
        listeners: tuple[Listener, ...],
        admin_door: socket.socket | None,
        descriptor_limit: int,
    ) -> None:
        self._reactor = reactor
        self._tls = tls
        self._on_ready = on_ready
        self._exit_code = 0
        self._signals = 0
        self._reserve = DescriptorReserve(min(RESERVE_SIZE, descriptor_limit // 32))
        self._memory = ProcessMemory(reactor)
        self._disk = OsDisk(reactor.post, reserve=self._reserve)
        self._background = BackgroundThreads(reactor.post)
        self._listeners = listeners
        self._node = Node(
            config=config,
            clock=clock,
            disk=self._disk,
            network=reactor,
            random=SystemRandom(),
            background=self._background,
            advertised=addresses_told(config, self._listeners),
            on_ready=self._became_ready,
            on_stopped=self._stopped,
            on_config=self._use_config,
            check_tls=_accept if tls is None else tls.contexts.check,
            tls_metrics=None if tls is None else tls.metrics,
            network_metrics=metrics,
            key_source=WebKeySource(reactor.post),
            on_defect=reactor.defects.note,
            descriptor_limit=descriptor_limit,
            memory=self._memory,
        )
        self._admin = None if admin_door is None else AdminServer(self._node, reactor.post, admin_door)

    def until_stopped(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            if self._admin is not None:
                start_thread(self._admin.start, "the admin pages")
            if self._tls is not None:
                start_thread(self._tls.watch.start, "the watch for changed certificates")
            self._node.start()
            # What start-up made stays for good: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            self._reactor.run(self._node)
            self._node.close()
        finally:
            if self._admin is not None:
                self._admin.stop()
            if self._tls is not None:
                self._tls.watch.stop()
            self._background.close()
            self._disk.close()
            self._reserve.close()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self._exit_code

    def _use_config(self, config: NodeConfig) -> None:
        if self._tls is not None:
            self._tls.watch.use(config.properties)

    def _became_ready(self) -> None:
        self._reactor.idle.begin(chain(import_handlers(), self._memory.prepare()))
        if self._admin is not None:
            self._admin.node_is_ready()
        if self._on_ready is not None:
            handle = NodeHandle(self._node, self._listeners, lambda: self._reactor.post(self._node.begin_shutdown))
            self._on_ready(handle)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals += 1
        if self._signals == 1:
            self._reactor.post(self._node.begin_shutdown)
        else:
            logger.warning("%s again: stopping without handing leadership over", signal.Signals(number).name)
            self._reactor.stop()

    def _stopped(self, reason: str | None) -> None:
        if reason is not None:
            logger.critical("this node cannot go on: %s", reason)
            self._exit_code = 1
        self._reactor.stop()


def start_thread(start: Callable[[], None], purpose: str) -> None:
    """Start a thread that the node needs from its start on.

    Raises:
        ConfigurationError: the system starts none.
    """
    try:
        start()
    except RuntimeError as error:
        raise ConfigurationError(f"{error} for {purpose}: raise the limit of processes (pids, ulimit -u)") from error


def _socket_options(config: NodeConfig, memory_limit_bytes: int | None = None) -> SocketOptions:
    """Return what the file says; Kafka's defaults of 100 KiB would only slow down what the system does better."""
    said = config.originals

    def buffer(key: str, value: int) -> int | None:
        return value if key in said and value >= 0 else None

    backlog = config.socket_listen_backlog_size if "socket.listen.backlog.size" in said else 1024
    return SocketOptions(
        receive_buffer_bytes=buffer("socket.receive.buffer.bytes", config.socket_receive_buffer_bytes),
        send_buffer_bytes=buffer("socket.send.buffer.bytes", config.socket_send_buffer_bytes),
        backlog_size=backlog,
        unread_bytes_max=settings.request_memory_bytes_max(config, memory_limit_bytes),
        idle_ms_max=settings.idle_ms_max(config),
        tells_dialled=config.ottla_advertise_dialled_address,
    )


def _open_doors(config: NodeConfig, reactor: Reactor) -> tuple[Listener, ...]:
    """Open every listener; return them with their real ports.

    Raises:
        ConfigurationError: an address cannot be bound.
    """
    doors = []
    for door in config.listeners:
        try:
            port = reactor.listen(door.name, door.host, door.port)
        except OSError as error:
            raise ConfigurationError(
                f"listener {door} cannot be opened: {error.strerror or error}. Stop what listens there, or choose "
                "another port in listeners."
            ) from error
        doors.append(door._replace(port=port))
    return tuple(doors)


def addresses_told(config: NodeConfig, doors: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Return what clients are told to dial: real ports for port 0, and somebody for an empty host."""
    ports = {door.name: door.port for door in doors}
    host = config.ottla_advertised_host or socket.gethostname()
    return tuple(
        listener._replace(host=listener.host or host, port=listener.port or ports.get(listener.name, 0))
        for listener in config.advertised_listeners
    )
