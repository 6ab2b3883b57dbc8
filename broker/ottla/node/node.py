"""`Node`: one broker, controller or both, assembled from its parts; synchronous and sans-IO.

The driver (the reactor, or the simulator) delivers connections, bytes and completions, and calls `tick` at
`next_deadline_ms`; everything else happens here, in one thread. Starting is a chain of events, not a script: the logs
are loaded, raft elects a leader, the metadata log is read and published, the controller unfences the broker.

Source: KafkaRaftServer, SharedServer, BrokerServer and ControllerServer of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Mapping

from ottla.config.listeners import Listener
from ottla.config.node_config import NodeConfig
from ottla.errors import StorageError
from ottla.membership.broker_lifecycle import BrokerLifecycle, BrokerState
from ottla.membership.controller_registration import ControllerRegistrationPublisher
from ottla.metadata.loader import MetadataPublisher
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.tls import TlsMetrics
from ottla.network.memory_guard import guard_memory
from ottla.node import coordinator_settings, settings
from ottla.node.client_plane import ClientPlane
from ottla.node.data_plane import DataPlane
from ottla.node.dynamic_config import DynamicConfigPublisher
from ottla.node.metadata_plane import MetadataPlane
from ottla.node.part import Part
from ottla.node.quorum_check import check_quorum
from ottla.node.shutdown import OrderlyShutdown
from ottla.peers.client import PeerClient
from ottla.ports import BackgroundTasks, Clock, ConnectionId, Disk, KeySource, Memory, Network, Random
from ottla.purgatory import Delayed
from ottla.security.authorizer import AclAuthorizer
from ottla.types import Endpoint, NodeId, Offset
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

logger = logging.getLogger(__name__)


class Node:
    """A node of the cluster.

    Args of the constructor:
        advertised: the advertised listeners, with the hosts and ports that this node is bound to.
        on_ready: called once, when the controller has unfenced the broker and clients are served.
        on_stopped: called once, when an orderly shutdown is complete or, with a reason, when the node cannot continue;
            the driver then calls `close`.
        on_config: receives settings that were changed while the node runs, for the driver.
        check_tls: raises ConfigurationError if the certificates that these properties name cannot be used.
        tls_metrics, network_metrics: counters of the driver.
        key_source: fetches the keys that verify OAUTHBEARER tokens; None if no listener offers the mechanism.
        descriptor_limit: maximum of open sockets and files of the process.
        memory: memory limit and use of the process; None: no client is closed for lack of memory.
        on_defect: receives an unexpected exception of a part's tick; None: `tick` raises it, for the simulator.

    The constructor locks the log directories, loads every log and recovers those that were not closed cleanly.

    Raises:
        ConfigurationError: a directory is not formatted, belongs to another node or cluster, or is in use.
        StorageError: every log directory failed.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        clock: Clock,
        disk: Disk,
        network: Network,
        random: Random,
        background: BackgroundTasks,
        advertised: tuple[Listener, ...],
        on_ready: Callable[[], None],
        on_stopped: Callable[[str | None], None],
        on_config: Callable[[NodeConfig], None] = lambda _: None,
        check_tls: Callable[[Mapping[str, str]], None] = lambda _: None,
        tls_metrics: TlsMetrics | None = None,
        network_metrics: NetworkMetrics | None = None,
        key_source: KeySource | None = None,
        on_defect: Callable[[str, Exception], None] | None = None,
        descriptor_limit: int = settings.UNLIMITED_DESCRIPTORS,
        memory: Memory | None = None,
    ) -> None:
        self.config = config
        self._memory = memory
        self._on_defect, self._on_config = on_defect, on_config
        self.tls_metrics = tls_metrics or TlsMetrics()
        self.network_metrics = network_metrics or NetworkMetrics()
        self.clock = clock
        self._random = random
        self._on_ready, self._on_stopped = on_ready, on_stopped
        self._is_stopping = self._is_stopped = False
        self._is_ready = self._leads_and_follows = False
        self._shutdown: OrderlyShutdown | None = None
        self._ticked_at_ms = -1
        self._found_due_ms: int | None = None
        self._parts: list[Part] = []
        self.authorizer = settings.authorizer(config)
        self.peers = PeerClient(
            network=network,
            clock=clock,
            random=random,
            config=settings.peer_client_config(config),
            logins=settings.peer_logins(config, disk),
        )
        self._create_planes(disk, network, background, check_tls, key_source, descriptor_limit)
        self._lifecycle = self._create_lifecycle(advertised) if config.is_broker else None

    def _create_planes(
        self,
        disk: Disk,
        network: Network,
        background: BackgroundTasks,
        check_tls: Callable[[Mapping[str, str]], None],
        key_source: KeySource | None,
        descriptor_limit: int,
    ) -> None:
        use = None if self._memory is None else self._memory.use()
        metadata_plane = MetadataPlane(
            config=self.config,
            disk=disk,
            clock=self.clock,
            random=self._random,
            network=network,
            peers=self.peers,
            on_failure=self._fail,
        )
        self.cluster_id, self.metadata = metadata_plane.cluster_id, metadata_plane.cache
        self.raft, self.controller = metadata_plane.raft, metadata_plane.controller
        self.channel, self._peer_names = metadata_plane.channel, metadata_plane.peer_names
        self._snapshots, self._loader = metadata_plane.snapshots, metadata_plane.loader
        data_plane = DataPlane(
            config=self.config,
            disk=disk,
            clock=self.clock,
            random=self._random,
            background=background,
            peers=self.peers,
            metadata_plane=metadata_plane,
            descriptor_limit=descriptor_limit,
            broker_epoch=lambda: self.broker_epoch,
            allocate_producer_ids=self._allocate_producer_ids,
            on_directory_failure=self._on_directory_failure,
            verifies_transactions=lambda: self.services.config.transaction_partition_verification_enable,
        )
        self.logs, self.replicas = data_plane.logs, data_plane.replicas
        self.groups, self._coordinators = data_plane.groups, data_plane.coordinators
        self._coordinator_publishers = data_plane.coordinator_publishers
        self._clients = ClientPlane(
            config=self.config,
            clock=self.clock,
            random=self._random,
            network=network,
            background=background,
            metadata_plane=metadata_plane,
            data_plane=data_plane,
            authorizer=self.authorizer,
            check_tls=check_tls,
            key_source=key_source,
            descriptor_limit=descriptor_limit,
            memory_limit_bytes=None if use is None else use.limit_bytes,
            on_heartbeats_ended=self._on_heartbeats_ended,
        )
        self.services, self.connections = self._clients.services, self._clients.connections

    def _create_lifecycle(self, advertised: tuple[Listener, ...]) -> BrokerLifecycle:
        config = self.config
        lifecycle = BrokerLifecycle(
            clock=self.clock,
            random=self._random,
            channel=self.channel,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            listeners=settings.registered_listeners(advertised),
            rack=config.broker_rack,
            metadata_offset=lambda: self._loader.applied_offset,
            directory_ids=lambda: sorted(self.logs.directory_ids().values()),
            offline_directory_ids=self.logs.offline_directory_ids,
            cordoned_directory_ids=self.logs.choice.cordoned_directory_ids,
            previous_broker_epoch=self.logs.previous_broker_epoch(),
            config=settings.lifecycle_config(config),
            on_state=self._on_broker_state,
            on_failure=self._fail,
        )
        lifecycle.unfenced.on_complete(lambda _: self._become_ready())
        return lifecycle

    # --- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to join the cluster; `tick` does the rest.

        Raises:
            ConfigurationError: the configuration contradicts the voters in the metadata log.
            StorageError: the disk failed.
        """
        config = self.config
        self._parts = [self.replicas, self.raft, self.peers, self.channel, *self._coordinators]
        self._parts += [self._snapshots, self.services.share_partitions]
        publishers: list[MetadataPublisher] = [self.metadata, DynamicConfigPublisher(config, self._use_config)]
        if isinstance(self.authorizer, AclAuthorizer):
            publishers.insert(0, self.authorizer)
        publishers += [self._clients.quotas, self.services.client_metrics, self.services.delegation_tokens]
        publishers.append(self._snapshots)
        self.raft.register(self._loader)
        if self.controller is not None:
            self.raft.register(self.controller)
            registration = ControllerRegistrationPublisher(
                clock=self.clock, controller=self.controller, channel=self.channel
            )
            publishers.append(registration)
            self._parts += [self.controller, registration]
        if self._lifecycle is not None:
            publishers.append(self._lifecycle)
            self._parts.append(self._lifecycle)
        self._parts += [self._peer_names, self.connections, self._clients.isolation, self.services.client_metrics]
        if self._memory is not None:
            self._parts.append(guard_memory(self._memory, self.connections, self.services, self.network_metrics))
        for publisher in publishers:
            self._loader.add_publisher(publisher)
        self.raft.initialize()
        check_quorum(
            config,
            self.raft.voters,
            kraft_version=self.raft.kraft_version,
            directory_id=self.raft.local.directory_id,
        )
        if self._lifecycle is not None:
            self._lifecycle.start()

    def _on_broker_state(self, state: BrokerState) -> None:
        """Lead and follow partitions once the metadata is newer than the start of this process.

        Older metadata may name this broker as the leader of partitions that its last process led, in the same epoch:
        followers would then truncate to the logs that a power failure has left.
        """
        if state is BrokerState.RECOVERY and not self._leads_and_follows:
            self._leads_and_follows = True
            assert self._lifecycle is not None, "only a broker has states"
            self._loader.add_publisher(self.replicas.metadata_publisher)
            for publisher in self._coordinator_publishers:
                self._loader.add_publisher(publisher)
            self.connections.on_caught_up()
            self._lifecycle.set_ready_to_unfence()

    def begin_shutdown(self) -> None:
        """Start a controlled shutdown, and report its end through ``on_stopped``."""
        if self._is_stopping:
            return
        self._is_stopping = True
        logger.info("shutting down: requesting the controller to move leaders away")
        self._shutdown = OrderlyShutdown(
            self.clock,
            move_leaders=self._move_leaders,
            leave_quorum=self.raft.begin_shutdown,
            responded_ms=lambda: 0 if self._lifecycle is None else self._lifecycle.acknowledged_ms,
            on_done=lambda: self._stop(None),
        )

    def _move_leaders(self) -> Delayed[None]:
        if self._lifecycle is None or not self.config.controlled_shutdown_enable:
            return Delayed.of(None)
        return self._lifecycle.begin_controlled_shutdown()

    def _stop(self, reason: str | None) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._on_stopped(reason)

    def close(self) -> None:
        """Close every log, so that the next start need not recover; the node is unusable afterwards."""
        self.peers.close()
        self.replicas.metadata_publisher.close()
        self.logs.close(broker_epoch=self.broker_epoch)
        self.raft.close()

    def _use_config(self, config: NodeConfig) -> None:
        """Apply settings that were changed while the node runs."""
        self.logs.choice.cordon(config.cordoned_directories)
        if self._lifecycle is not None:
            self._lifecycle.on_directories_changed()
        self._on_config(config)
        self._clients.use_config(config)
        self.replicas.update_config(settings.replication_config(config))
        self.groups.use_config(coordinator_settings.group_config(config))
        self.logs.maintenance.use_config(settings.log_manager_config(config))

    def _become_ready(self) -> None:
        strays = self.replicas.metadata_publisher.remove_strays()
        if strays:
            logger.warning("moved aside logs of deleted topics: %s", ", ".join(map(str, strays)))
        self._is_ready = True
        self.connections.on_unfenced()
        self._on_ready()

    def _fail(self, reason: str) -> None:
        self._is_stopping = True
        self._stop(reason)

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> BrokerState:
        """State of the broker; NOT_RUNNING for a node that is only a controller."""
        return BrokerState.NOT_RUNNING if self._lifecycle is None else self._lifecycle.state

    @property
    def broker_epoch(self) -> Offset:
        """Epoch of the broker's registration; -1 before it and without a broker."""
        return -1 if self._lifecycle is None else self._lifecycle.broker_epoch

    def readiness(self) -> list[str]:
        """Return the reasons why this node does not serve clients; empty if it does."""
        reasons = []
        if self._is_stopping:
            reasons.append("the node is shutting down")
        if self.controller_id is None:
            reasons.append("the quorum has no leader yet")
        if self._lifecycle is not None and self.state is not BrokerState.RUNNING:
            reasons.append(f"the broker is in state {self.state.name}: the controller has not unfenced it")
        reasons += [f"log directory {path} is offline" for path in self.logs.offline_directories()]
        return reasons

    @property
    def has_served(self) -> bool:
        """Whether the node has been ready since its start, even if it is not now."""
        return self._is_ready

    @property
    def controller_id(self) -> NodeId | None:
        """Node id of the active controller; None while there is none."""
        return self.channel.active_controller_id

    # --- for the driver ------------------------------------------------------------------------------------------

    def accepted(
        self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint | None
    ) -> bool:
        return self.connections.accepted(connection, listener=listener, peer=peer, local_address=local_address)

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """Note that an accepted connection's TLS handshake is complete."""
        self.connections.secured(connection, subject)

    def connected(self, connection: ConnectionId) -> None:
        """Note that a connection which this node opened is established."""
        self.peers.connected(connection)

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        if connection in self.peers.connections:
            return self.peers.receive_buffer(connection)
        return self.connections.receive_buffer(connection)

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        if connection in self.peers.connections:
            self.peers.received(connection, size_bytes)
        else:
            self.connections.received(connection, size_bytes)

    def drained(self, connection: ConnectionId) -> None:
        if connection in self.peers.connections:
            self.peers.drained(connection)
        else:
            self.connections.drained(connection)

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether to serve the bytes that a peer sent before it hung up."""
        return connection not in self.peers.connections and self.connections.serves_rest(connection)

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        """Note that a connection has ended, or that this node could not establish one."""
        if connection in self.peers.connections:
            self.peers.closed(connection, reason, was_connection_refused=was_connection_refused)
        else:
            self.connections.closed(connection, reason)

    def tick(self) -> bool:
        """Do due work; at most once a millisecond, so that it may be called after every read.

        Requests that wait for a slice are served each time. Return False if nothing was due and nothing has changed.
        """
        now_ms = self.clock.monotonic_ms()
        self._found_due_ms = None
        if now_ms == self._ticked_at_ms:
            return self.connections.run_slices()
        self._ticked_at_ms = now_ms
        earliest_ms = self.logs.maintenance.due_ms
        for part in self._parts:
            try:
                due_ms = part.tick(now_ms)
            except Exception as error:
                due_ms = self._on_failed_tick(part, error, now_ms)
            if due_ms is not None and due_ms < earliest_ms:
                earliest_ms = due_ms
        if now_ms >= self.logs.maintenance.due_ms:
            try:
                self.logs.maintenance.tick(now_ms)
            except Exception as error:
                self._on_failed_tick(self.logs.maintenance, error, now_ms)
        if self._shutdown is not None:
            self._shutdown.tick(now_ms)
        elif not self._is_ready and self._lifecycle is None and self.metadata.offset >= 0:
            self._become_ready()
        elif earliest_ms > now_ms:
            self._found_due_ms = earliest_ms
            return False
        return True

    def _on_failed_tick(self, part: object, error: Exception, now_ms: int) -> int:
        """Report an unexpected exception; the part ticks again a millisecond later, and the others have ticked."""
        if self._on_defect is None:
            raise error
        self._on_defect(f"the tick of {type(part).__name__} failed", error)
        return now_ms

    def next_deadline_ms(self) -> int:
        """Return when `tick` must be called next at the latest, by the monotonic clock.

        Parts with work in slices return now; except for slices of requests, they have to wait for the next millisecond,
        as `tick` does. Call it after `tick`, which has computed the result if nothing was due.
        """
        if self._found_due_ms is not None:
            found_ms, self._found_due_ms = self._found_due_ms, None
            return found_ms
        earliest_ms = self.logs.maintenance.due_ms
        for part in self._parts if self._shutdown is None else (*self._parts, self._shutdown):
            deadline_ms = part.next_deadline_ms()
            if deadline_ms is not None and deadline_ms < earliest_ms:
                earliest_ms = deadline_ms
        return max(self._ticked_at_ms + (not self.connections.has_runnable_slices), earliest_ms)

    # --- between the parts ---------------------------------------------------------------------------------------

    def _allocate_producer_ids(self) -> Delayed[AllocateProducerIdsResponse]:
        request = AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=self.broker_epoch)
        return self.channel.send(request)  # type: ignore[return-value]

    def _on_heartbeats_ended(self, broker_id: NodeId, broker_epoch: Offset) -> None:
        if self.controller is not None:
            self.controller.on_broker_connection_lost(broker_id, broker_epoch)

    def _on_directory_failure(self, path: str, error: StorageError) -> None:
        logger.error("log directory %s failed and is offline: %s", path, error)
        if not self._parts:
            return  # while logs are loaded: no partition is led or followed yet
        if self._lifecycle is not None:
            self._lifecycle.on_directories_changed()
        self.replicas.metadata_publisher.on_directory_failure(self.logs.lost_partitions(path))
        if path == self.config.metadata_log_dir or not self.logs.directory_ids():
            self._fail(f"log directory {path}, which this node needs, failed: {error}")
