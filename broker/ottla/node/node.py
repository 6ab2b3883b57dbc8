"""`Node`: one broker, controller or both, put together from its parts; synchronous and sans-IO.

The driver (the real reactor, or the simulator) hands in connections and bytes, calls `tick` when `next_deadline_ms`
says so, and delivers completions; everything else happens here, in one thread. Starting is a chain of events, not a
script: the logs are loaded, raft elects, the metadata log is read and published, the controller lets the broker in.

Source: KafkaRaftServer, SharedServer, BrokerServer and ControllerServer of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.config.listeners import Listener
from ottla.config.node_config import NodeConfig
from ottla.config.sasl_settings import read_sasl_listeners
from ottla.controller.quorum_controller import QuorumController
from ottla.coordinator.publisher import CoordinatorPublisher
from ottla.coordinator.replicated_log import ReplicatedCoordinatorLog
from ottla.errors import ConfigurationError, StorageError
from ottla.groups.coordinator import GroupCoordinator
from ottla.handlers.services import Services
from ottla.log.manager import LogManager
from ottla.membership.broker_lifecycle import BrokerLifecycle, BrokerState
from ottla.membership.controller_channel import NodeToControllerChannel
from ottla.membership.controller_registration import ControllerRegistrationPublisher
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.cache import MetadataCache
from ottla.metadata.loader import MetadataLoader, MetadataPublisher
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.metadata.scram import ScramImage, first_credentials
from ottla.metadata.snapshot_generator import SnapshotGenerator
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.tls import TlsMetrics
from ottla.network.connection_manager import ConnectionManager
from ottla.network.memory_guard import guard_memory
from ottla.node import settings
from ottla.node.dynamic_config import DynamicConfigPublisher
from ottla.node.quorum_check import check_quorum
from ottla.node.shutdown import OrderlyShutdown
from ottla.peers.client import PeerClient
from ottla.ports import Background, Clock, ConnectionId, Disk, KeySource, Memory, Network, Random
from ottla.purgatory import Delayed
from ottla.quoting import one_line
from ottla.raft.client import RaftClient
from ottla.raft.replica import other_cluster
from ottla.replication.peer_brokers import PeerBrokers
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.security.authorizer import AclAuthorizer
from ottla.security.denials import Denials
from ottla.security.quotas.client_quotas import ClientQuotas
from ottla.transactions.producer_ids import ProducerIds
from ottla.types import CONSUMER_OFFSETS_TOPIC, ZERO_UUID, Endpoint, NodeId, Offset
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

PROBE_TIMEOUT_MS: Final = 1_000
"""A broker's listener answers or refuses at once; what says nothing for so long proves nothing."""

logger = logging.getLogger(__name__)


class Part(Protocol):
    """What has things to do at certain times."""

    def tick(self, now_ms: int) -> int | None:
        """Do what is due; return ``now_ms`` when something was, else what `next_deadline_ms` would."""

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` has something to do; None when nothing is planned."""


class Node:
    """See the module.

    Args of the constructor:
        advertised: what clients are to dial, with the hosts and ports that this node really has.
        on_ready: called once, when the controller has let the broker in and clients are served.
        on_stopped: called once, when an orderly shutdown is through or, with a reason, when the node cannot go on;
            the driver then calls `close`.
        on_config: told of settings that were changed while the node runs, for what the driver does with them.
        check_tls: raises ConfigurationError where the certificates that these properties name cannot be used.
        tls_metrics, network_metrics: what the driver counts.
        key_source: fetches what OAUTHBEARER's tokens are checked with; None where no listener offers it.
        descriptor_limit: how many sockets and files the process may have open.
        memory: what the process may use; None: its clients are not closed for it.
        on_defect: told of an exception in a part's tick that no code expected; None: `tick` raises it, as the simulator
            wants.

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
        background: Background,
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
        self._descriptor_limit = descriptor_limit
        self._memory = memory
        use = None if memory is None else memory.use()
        self._memory_limit_bytes = None if use is None else use.limit_bytes
        self._on_defect = on_defect
        self._on_config = on_config
        self._key_source = key_source
        self._check_tls = check_tls
        self.tls_metrics = tls_metrics or TlsMetrics()
        self.network_metrics = network_metrics or NetworkMetrics()
        self.clock = clock
        self._random = random
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._is_stopping = False
        self._is_ready = False
        self._leads_and_follows = False
        self._is_stopped = False
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
        self._open_metadata(disk)
        self._open_partitions(disk)
        self._open_doors(network, background)
        self._lifecycle = self._make_lifecycle(advertised) if config.is_broker else None

    def _open_metadata(self, disk: Disk) -> None:
        """Make the quorum's replica, the controller, and the way from the log to the image."""
        config = self.config
        properties = settings.require_formatted(disk, config.metadata_log_dir)
        self.cluster_id = properties.cluster_id
        self.metadata = MetadataCache(self.clock)
        listener = config.controller_listener_names[0]
        self.raft: RaftClient[MetadataRecord] = RaftClient(
            disk=disk,
            clock=self.clock,
            random=self._random,
            channel=self.peers,
            directory=config.metadata_log_dir,
            node_id=config.node_id,
            directory_id=properties.directory_id or ZERO_UUID,
            cluster_id=self.cluster_id,
            serde=MetadataRecordSerde(),
            static_voters=settings.static_voters(config),
            listeners={door.name: door.endpoint for door in config.advertised_controller_listeners},
            listener_name=listener,
            bootstrap_servers=config.controller_quorum_bootstrap_servers,
            is_controller=config.is_controller,
            config=settings.raft_config(config),
            on_failure=lambda error: self._fail(f"the metadata log failed: {error}"),
            on_other_cluster=lambda: self._fail(f"node {config.node_id}: {other_cluster(self.cluster_id)}"),
        )
        bootstrap = read_bootstrap(disk, config.metadata_log_dir) if config.is_controller else []
        self._first_credentials = first_credentials(bootstrap)
        self.controller = self._make_controller(bootstrap) if config.is_controller else None
        self.channel = NodeToControllerChannel(
            clock=self.clock,
            peers=self.peers,
            node_id=config.node_id,
            controller=self.controller,
            leader=lambda: self.raft.leader_and_epoch,
            leader_endpoint=lambda: self.raft.leader_endpoint,
            listener=listener,
            request_timeout_ms=config.request_timeout_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
        )
        self._snapshots = SnapshotGenerator(raft=self.raft, clock=self.clock, config=settings.snapshot_config(config))
        self._loader = MetadataLoader()

    def _make_controller(self, bootstrap: list[MetadataRecord]) -> QuorumController:
        return QuorumController(
            raft=self.raft,
            clock=self.clock,
            random=self._random,
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            bootstrap=bootstrap,
            has_broker=self.config.is_broker,
            config=settings.controller_config(self.config),
            probe=lambda endpoint, listener: self.peers.probe(endpoint, listener, timeout_ms=PROBE_TIMEOUT_MS),
        )

    def _make_lifecycle(self, advertised: tuple[Listener, ...]) -> BrokerLifecycle:
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
            cordoned_directory_ids=self.logs.cordoned_directory_ids,
            previous_broker_epoch=self.logs.previous_broker_epoch(),
            config=settings.lifecycle_config(config),
            on_state=self._on_broker_state,
            on_failure=self._fail,
        )
        lifecycle.unfenced.on_complete(lambda _: self._become_ready())
        return lifecycle

    def _open_partitions(self, disk: Disk) -> None:
        """Lock the log directories, load the logs; make what serves partitions and groups."""
        config = self.config
        self._topic_config = settings.topic_log_config(config, self.metadata)
        self.logs = LogManager(
            disk=disk,
            clock=self.clock,
            random=self._random,
            log_directories=settings.log_directories(config),
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            config=settings.log_manager_config(config, self._descriptor_limit),
            on_directory_failure=self._on_directory_failure,
        )
        self.logs.cordon(config.cordoned_directories)
        self.logs.start(config_of_topic=self._topic_config)
        if config.metadata_log_dir in self.logs.offline_directories():
            raise StorageError(f"log directory {config.metadata_log_dir} failed, and with it the metadata log")
        self.replicas = ReplicaManager(
            node_id=config.node_id,
            logs=self.logs,
            clock=self.clock,
            config_of_topic=self._topic_config,
            peer_brokers=PeerBrokers(
                channel=self.peers,
                endpoint_of=lambda broker: self.metadata.broker_endpoint(broker, config.inter_broker_listener_name),
                send_to_controller=self.channel.send,
                broker_epoch=lambda: self.broker_epoch,
            ),
            config=settings.replication_config(config),
        )
        self._offsets_log = ReplicatedCoordinatorLog(CONSUMER_OFFSETS_TOPIC, self.replicas)
        self.groups = GroupCoordinator(
            config=settings.group_config(config),
            clock=self.clock,
            random=self._random,
            log=self._offsets_log,
            offsets_partition_count=lambda: self.metadata.partition_count(CONSUMER_OFFSETS_TOPIC),
        )

    def _open_doors(self, network: Network, background: Background) -> None:
        """Make what serves clients."""
        config = self.config
        self._quotas = ClientQuotas(self.clock, settings.quota_config(config))
        self._use_connection_rates(config)
        self.services = Services(
            clock=self.clock,
            random=self._random,
            background=background,
            work_memory=settings.work_memory(config),
            config=config,
            cluster_id=self.cluster_id,
            metadata=self.metadata,
            raft=self.raft,
            controller=self.channel,
            logs=self.logs,
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(
                random=self._random,
                slots_max=config.max_incremental_fetch_session_cache_slots,
                bytes_max=config.ottla_fetch_session_cache_bytes,
            ),
            groups=self.groups,
            producer_ids=ProducerIds(allocate_block=self._allocate_producer_ids),
            authorizer=self.authorizer,
            denials=Denials(self.clock),
            check_tls=self._check_tls,
            quotas=self._quotas,
        )
        self.connections = ConnectionManager(
            services=self.services,
            network=network,
            config=settings.connection_limits(config, self._descriptor_limit, self._memory_limit_bytes),
            roles=settings.listener_roles(config),
            security_protocols={door.name: door.security_protocol for door in config.listeners},
            principal_mappings=settings.principal_mappings(config),
            on_heartbeats_ended=self._on_heartbeats_ended,
            on_follower_ended=self.replicas.disconnected_leaders.suspect,
            scram=self._scram,
            key_source=self._key_source,
        )

    def _scram(self) -> ScramImage:
        """Return the SCRAM credentials of the newest metadata; until there is any, what the storage was formatted with.

        Otherwise controllers that are to elect a leader with SCRAM could never begin.
        """
        image = self.metadata.image
        # A log may begin with records of the quorum alone: the cluster's own come in one transaction with its levels.
        return image.scram if image.features.levels else self._first_credentials

    # --- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join the cluster; `tick` does the rest.

        Raises:
            ConfigurationError: the configuration contradicts the quorum that the metadata log knows.
            StorageError: the disk refused.
        """
        config = self.config
        self._parts = [self.replicas, self.raft, self.peers, self.channel, self.groups, self._snapshots]
        publishers: list[MetadataPublisher] = [self.metadata, DynamicConfigPublisher(config, self._use_config)]
        if isinstance(self.authorizer, AclAuthorizer):
            publishers.insert(0, self.authorizer)
        publishers.append(self._quotas)
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
        self._parts.append(self.connections)
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
        """Lead and follow from the moment on that the metadata is as new as this process.

        Older metadata may call this broker the leader of what its last process led, in the same epoch: followers would
        then truncate to what a power cut has left of its logs.
        """
        if state is BrokerState.RECOVERY and not self._leads_and_follows:
            self._leads_and_follows = True
            assert self._lifecycle is not None, "only a broker has states"
            self._loader.add_publisher(self.replicas.metadata_publisher)
            self._loader.add_publisher(
                CoordinatorPublisher(node_id=self.config.node_id, log=self._offsets_log, coordinator=self.groups)
            )
            self.connections.on_caught_up()
            self._lifecycle.set_ready_to_unfence()

    def begin_shutdown(self) -> None:
        """Hand leadership over in order, then report through ``on_stopped``."""
        if self._is_stopping:
            return
        self._is_stopping = True
        logger.info("shutting down: asking the controller to move leaders away")
        self._shutdown = OrderlyShutdown(
            self.clock,
            move_leaders=self._move_leaders,
            leave_quorum=self.raft.begin_shutdown,
            answered_ms=lambda: 0 if self._lifecycle is None else self._lifecycle.acknowledged_ms,
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
        """Close every log so that the next start need not recover; the node is of no use afterwards."""
        self.peers.close()
        self.logs.close(broker_epoch=self.broker_epoch)
        self.raft.close()

    def _use_config(self, config: NodeConfig) -> None:
        """Take settings that were changed while the node runs."""
        self.logs.cordon(config.cordoned_directories)
        if self._lifecycle is not None:
            self._lifecycle.on_cordoned()
        self._on_config(config)
        self.services.config = config
        self.replicas.update_config(settings.replication_config(config))
        self.connections.config = settings.connection_limits(config, self._descriptor_limit, self._memory_limit_bytes)
        self._use_connection_rates(config)
        try:
            doors = read_sasl_listeners(config.properties, config.listeners, config.listener_security_protocol_map)
            self.connections.authentication.use(doors)
        except ConfigurationError as error:
            logger.warning(
                "changed settings of SASL cannot be used, the node keeps what it has: %s", one_line(str(error))
            )
        self.logs.maintenance.producer_id_expiration_ms = config.producer_id_expiration_ms

    def _use_connection_rates(self, config: NodeConfig) -> None:
        self._quotas.connection_rates.set_rates(
            config.max_connection_creation_rate, settings.listener_connection_rates(config)
        )

    def _become_ready(self) -> None:
        strays = self.replicas.metadata_publisher.remove_strays()
        if strays:
            logger.warning("moved aside logs that belong to no topic any more: %s", ", ".join(map(str, strays)))
        self._is_ready = True
        self.connections.on_unfenced()
        self._on_ready()

    def _fail(self, reason: str) -> None:
        self._is_stopping = True
        self._stop(reason)

    # --- how it is -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> BrokerState:
        """Where the broker is in its life; NOT_RUNNING for a node that is only a controller."""
        return BrokerState.NOT_RUNNING if self._lifecycle is None else self._lifecycle.state

    @property
    def broker_epoch(self) -> Offset:
        """Of the broker's registration; -1 before it and without a broker."""
        return -1 if self._lifecycle is None else self._lifecycle.broker_epoch

    def readiness(self) -> list[str]:
        """Return why this node does not serve clients, in words; empty when it does."""
        reasons = []
        if self._is_stopping:
            reasons.append("the node is shutting down")
        if self.controller_id is None:
            reasons.append("the quorum has no leader yet")
        if self._lifecycle is not None and self.state is not BrokerState.RUNNING:
            reasons.append(f"the broker is in state {self.state.name}: the controller has not let it in")
        reasons += [f"log directory {path} is offline" for path in self.logs.offline_directories()]
        return reasons

    @property
    def has_served(self) -> bool:
        """Whether it has been ready since it was started, however it is now."""
        return self._is_ready

    @property
    def controller_id(self) -> NodeId | None:
        """Node id of the active controller; None while there is none."""
        return self.channel.active_controller_id

    # --- what the driver calls -----------------------------------------------------------------------------------

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint | None) -> bool:
        return self.connections.accepted(connection, listener=listener, peer=peer, dialled=dialled)

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """A connection that was accepted is through its TLS handshake."""
        self.connections.secured(connection, subject)

    def connected(self, connection: ConnectionId) -> None:
        """A connection that this node opened is up."""
        self.peers.connected(connection)

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        if connection in self.peers.lane_of:
            return self.peers.receive_buffer(connection)
        return self.connections.receive_buffer(connection)

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        if connection in self.peers.lane_of:
            self.peers.received(connection, size_bytes)
        else:
            self.connections.received(connection, size_bytes)

    def drained(self, connection: ConnectionId) -> None:
        if connection in self.peers.lane_of:
            self.peers.drained(connection)
        else:
            self.connections.drained(connection)

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether what a peer sent before it hung up is still to be served."""
        return connection not in self.peers.lane_of and self.connections.serves_rest(connection)

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None:
        """A connection has ended, or one that this node wanted did not come up."""
        if connection in self.peers.lane_of:
            self.peers.closed(connection, reason, was_refused=was_refused)
        else:
            self.connections.closed(connection, reason)

    def tick(self) -> bool:
        """Do what is due; at most once a millisecond, so that it may be called after every read.

        Requests that wait for their turn are served each time. Return False when nothing was due, and the node is as it
        was before.
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
        """Report what no code expected; the part ticks again a millisecond later, and the others have ticked."""
        if self._on_defect is None:
            raise error
        self._on_defect(f"{type(part).__name__} did not do what was due", error)
        return now_ms

    def next_deadline_ms(self) -> int:
        """Return when `tick` is to be called next at the latest, by the monotonic clock.

        Parts with work in slices say now; but for turns, the next slice has to wait for the next millisecond, as `tick`
        does. To be asked when everything has happened that `tick` follows: when that had nothing to do, it has the
        answer.
        """
        if self._found_due_ms is not None:
            found_ms, self._found_due_ms = self._found_due_ms, None
            return found_ms
        earliest_ms = self.logs.maintenance.due_ms
        for part in self._parts:
            deadline_ms = part.next_deadline_ms()
            if deadline_ms is not None and deadline_ms < earliest_ms:
                earliest_ms = deadline_ms
        if self._shutdown is not None:
            deadline_ms = self._shutdown.next_deadline_ms()
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
        logger.error("log directory %s failed and is offline from now on: %s", path, error)
        if not self._parts:
            return  # while it is loaded: nothing is led or followed yet
        self.replicas.metadata_publisher.on_directory_failure(self.logs.lost_partitions(path))
        if path == self.config.metadata_log_dir or not self.logs.directory_ids():
            self._fail(f"log directory {path}, which this node cannot do without, failed: {error}")
