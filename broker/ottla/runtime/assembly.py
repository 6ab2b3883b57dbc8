"""The process of a node: reactor, disk, clock, admin server and signal handlers around `node.node.Node`.

Source: KafkaRaftServer for the order of start-up and shutdown. Exit code: 0 after an orderly shutdown, else 1.
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
from ottla.runtime.background import BackgroundWorkers
from ottla.runtime.cgroup_memory import CgroupMemory
from ottla.runtime.clock import SystemClock
from ottla.runtime.descriptor_limit import lift_descriptor_limit, presize_descriptor_table
from ottla.runtime.descriptor_reserve import SIZE as RESERVE_SIZE
from ottla.runtime.descriptor_reserve import DescriptorReserve
from ottla.runtime.disk import OsDisk
from ottla.runtime.disk_wait import DiskWait
from ottla.runtime.key_source import WebKeySource
from ottla.runtime.link import SocketOptions
from ottla.runtime.process_memory import ProcessMemory
from ottla.runtime.reactor import Reactor
from ottla.runtime.stall_disconnect import StallDisconnect
from ottla.runtime.stall_report import StallReport
from ottla.runtime.stall_watch import StallResponse, StallWatch
from ottla.runtime.system_random import SystemRandom

if TYPE_CHECKING:
    from ottla.runtime.certificate_watch import CertificateWatch
    from ottla.runtime.handshakes import Handshakes
    from ottla.runtime.tls_contexts import ListenerContexts

logger = logging.getLogger(__name__)

_GC_THRESHOLDS = (5_000, 5, 800)
"""A collection stops the loop: of the youngest generation's 5,000 objects for a millisecond or two, of the next one's
25,000 for five. A full one stops it for 0.2 s at 10,000 partitions; it needs 20 million new objects.
"""


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """Handle of a running node for the caller of `run_node`; safe to use from any thread."""

    node: Node
    listeners: tuple[Listener, ...]
    """The listeners with the ports that they are bound to."""
    stop: Callable[[], None]
    """Start an orderly shutdown."""


def run_node(config: NodeConfig, *, on_ready: Callable[[NodeHandle], None] | None = None) -> int:
    """Run a node until SIGTERM, SIGINT or `NodeHandle.stop`; return the exit code.

    A second signal stops without handing leadership over. ``on_ready`` is called on the loop once the node serves
    clients; it must not block.

    Raises:
        OttlaError: the node cannot start: its configuration, its directories or its addresses are wrong. If an address
            is in use, the OSError is the cause, and nothing has been opened.
    """
    presize_descriptor_table(limit := lift_descriptor_limit())
    descriptor_limit = limit if limit > 0 else settings.UNLIMITED_DESCRIPTORS
    clock = SystemClock()
    tls = _create_tls(config, clock)
    metrics = NetworkMetrics()
    use = CgroupMemory().use()
    options = _socket_options(config, None if use is None else use.limit_bytes)
    reactor = Reactor(clock, options, None if tls is None else tls.handshakes, metrics)
    admin_socket = None
    try:
        listeners = _open_listeners(config, reactor)
        if config.ottla_admin_listener is not None:
            admin_socket = open_admin_listener(config.ottla_admin_listener)
        run = _Run(
            config,
            clock,
            reactor,
            metrics,
            tls,
            on_ready,
            listeners=listeners,
            admin_socket=admin_socket,
            descriptor_limit=descriptor_limit,
        )
        return run.until_stopped()
    finally:
        reactor.close()
        if admin_socket is not None:
            admin_socket.close()


@dataclass(frozen=True, slots=True)
class _Tls:
    """Objects that a node needs if at least one of its listeners uses TLS."""

    metrics: TlsMetrics
    contexts: "ListenerContexts"
    handshakes: "Handshakes"
    watch: "CertificateWatch"


def _create_tls(config: NodeConfig, clock: SystemClock) -> _Tls | None:
    """Read the certificates; without TLS, import none of the modules for it.

    Raises:
        ConfigurationError: a certificate cannot be used.
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
    """Accept any TLS settings: no listener uses them."""


class _Run:
    """One run of a node, from open listeners to the last sync."""

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
        admin_socket: socket.socket | None,
        descriptor_limit: int,
    ) -> None:
        self._reactor = reactor
        self._tls = tls
        self._on_ready = on_ready
        self._exit_code = 0
        self._signals = 0
        self._reserve = DescriptorReserve(min(RESERVE_SIZE, descriptor_limit // 32))
        self._memory = ProcessMemory(reactor)
        self._key_source = WebKeySource(reactor.post)
        self._stall_watches: list[StallWatch] = []
        self._add_stall_watch(clock, config.ottla_loop_stall_ms, StallReport(metrics.loop), "ottla-stall-report")
        disconnect = StallDisconnect(reactor.disconnect, self._has_others, metrics.loop)
        self._add_stall_watch(clock, config.ottla_loop_stall_disconnect_ms, disconnect, "ottla-stall-disconnect")
        self._disk = OsDisk(reactor.post, reserve=self._reserve)
        self._background = BackgroundWorkers(reactor.post, inherited=self._disk.lock_descriptors)
        self._listeners = listeners
        self._node = Node(
            config=config,
            clock=clock,
            disk=self._disk,
            network=reactor,
            random=SystemRandom(),
            background=self._background,
            advertised=advertised_addresses(config, self._listeners),
            on_ready=self._became_ready,
            on_stopped=self._stopped,
            on_config=self._use_config,
            check_tls=_accept if tls is None else tls.contexts.check,
            tls_metrics=None if tls is None else tls.metrics,
            network_metrics=metrics,
            key_source=self._key_source,
            on_defect=reactor.defects.note,
            descriptor_limit=descriptor_limit,
            memory=self._memory,
        )
        self._admin = None
        if admin_socket is not None:
            disk_wait = DiskWait(reactor.loop, clock)
            self._admin = AdminServer(
                self._node,
                reactor.post,
                admin_socket,
                disk_wait_s=disk_wait.elapsed_s,
                disk_wait_max_s=config.ottla_loop_disk_wait_max_ms / 1000,
            )

    def _add_stall_watch(self, clock: SystemClock, bound_ms: int, response: StallResponse, name: str) -> None:
        if bound_ms:
            self._stall_watches.append(StallWatch(self._reactor.loop, clock, bound_ms, response, name))

    def _has_others(self) -> bool:
        """Whether other nodes may take over; reads only objects that are replaced as a whole."""
        return len(self._node.metadata.image.cluster.brokers) > 1 or len(self._node.raft.voters.node_ids) > 1

    def until_stopped(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            if self._admin is not None:
                start_thread(self._admin.start, "the admin pages")
            if self._tls is not None:
                start_thread(self._tls.watch.start, "the watch for changed certificates")
            self._node.start()
            # Objects created by start-up live as long as the process: keep the collector from traversing them.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            self._start_stall_watches()
            self._reactor.run(self._node)
            self._node.close()
        finally:
            if self._admin is not None:
                self._admin.stop()
            if self._tls is not None:
                self._tls.watch.stop()
            for watch in self._stall_watches:
                watch.close()
            self._background.close()
            self._disk.close()
            self._reserve.close()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self._exit_code

    def _start_stall_watches(self) -> None:
        for watch in self._stall_watches:
            try:
                watch.start()
            except RuntimeError as error:
                logger.warning("the event loop is not watched for stalls: %s (limit of processes)", error)

    def _use_config(self, config: NodeConfig) -> None:
        if self._tls is not None:
            self._tls.watch.use(config.properties)

    def _became_ready(self) -> None:
        self._reactor.idle.start(chain(import_handlers(), self._memory.prepare(), self._key_source.prepare()))
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
            logger.critical("stopping this node, which cannot continue: %s", reason)
            self._exit_code = 1
        self._reactor.stop()


def start_thread(start: Callable[[], None], purpose: str) -> None:
    """Start a thread without which the node must not run.

    Raises:
        ConfigurationError: the system does not start a thread.
    """
    try:
        start()
    except RuntimeError as error:
        raise ConfigurationError(f"{error} for {purpose}: raise the limit of processes (pids, ulimit -u)") from error


def _socket_options(config: NodeConfig, memory_limit_bytes: int | None = None) -> SocketOptions:
    """Return the configured options; Kafka's buffer defaults of 100 KiB would disable the kernel's auto-tuning."""
    configured = config.originals

    def buffer(key: str, value: int) -> int | None:
        return value if key in configured and value >= 0 else None

    backlog = config.socket_listen_backlog_size if "socket.listen.backlog.size" in configured else 1024
    return SocketOptions(
        receive_buffer_bytes=buffer("socket.receive.buffer.bytes", config.socket_receive_buffer_bytes),
        send_buffer_bytes=buffer("socket.send.buffer.bytes", config.socket_send_buffer_bytes),
        backlog_size=backlog,
        unread_bytes_max=settings.request_memory_bytes_max(config, memory_limit_bytes),
        idle_ms_max=settings.idle_ms_max(config),
        reports_local_address=config.ottla_advertise_dialled_address,
    )


def _open_listeners(config: NodeConfig, reactor: Reactor) -> tuple[Listener, ...]:
    """Open every listener; return them with their real ports.

    Raises:
        ConfigurationError: an address cannot be bound.
    """
    bound = []
    for listener in config.listeners:
        try:
            port = reactor.listen(listener.name, listener.host, listener.port)
        except OSError as error:
            raise ConfigurationError(
                f"listener {listener} cannot be opened: {error.strerror or error}. Stop the program that listens on "
                "this address, or choose another port in listeners."
            ) from error
        bound.append(listener._replace(port=port))
    return tuple(bound)


def advertised_addresses(config: NodeConfig, bound: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Return the advertised listeners: the bound port for port 0, this host's name for an empty host."""
    ports = {listener.name: listener.port for listener in bound}
    host = config.ottla_advertised_host or socket.gethostname()
    return tuple(
        listener._replace(host=listener.host or host, port=listener.port or ports.get(listener.name, 0))
        for listener in config.advertised_listeners
    )
