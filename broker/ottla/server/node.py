"""`Node`: one broker, controller or both, put together from its parts; synchronous and sans-IO.

The driver (the real reactor, or the simulator) hands in connections and bytes, calls `tick` when `next_deadline_ms`
says so, and delivers completions; everything else happens here, in one thread. Starting is a chain of events, not a
script: the logs are loaded, raft elects, the metadata log is read and published, the controller lets the broker in.

Source: KafkaRaftServer, SharedServer, BrokerServer and ControllerServer of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable

from ottla.config.listeners import Listener
from ottla.config.node_config import NodeConfig
from ottla.controller.channel import LocalControllerChannel
from ottla.controller.controller import Controller
from ottla.controller.lifecycle import BrokerLifecycle, BrokerState
from ottla.errors import StorageError
from ottla.groups.coordinator import GroupCoordinator
from ottla.handlers.services import Services
from ottla.log.manager import LogManager
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.cache import MetadataCache
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.metadata.snapshot_generator import SnapshotGenerator
from ottla.ports import Clock, ConnectionId, Disk, Network, Random
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.replication.fetch_session import FetchSessions
from ottla.replication.replica_manager import ReplicaManager
from ottla.server import settings
from ottla.server.dynamic_config import DynamicConfigPublisher
from ottla.server.gateway import Gateway
from ottla.server.group_partitions import GroupPartitionsPublisher, ReplicatedOffsetsLog
from ottla.transactions.producer_ids import ProducerIds
from ottla.types import CONSUMER_OFFSETS_TOPIC, ZERO_UUID, Endpoint
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

logger = logging.getLogger(__name__)


class Node:
    """See the module.

    Args of the constructor:
        advertised: what clients are to dial, with the hosts and ports that this node really has.
        on_ready: called once, when the controller has let the broker in and clients are served.
        on_stopped: called once, when an orderly shutdown is through or, with a reason, when the node cannot go on;
            the driver then calls `close`.

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
        advertised: tuple[Listener, ...],
        on_ready: Callable[[], None],
        on_stopped: Callable[[str | None], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self._random = random
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._is_stopping = False
        self._has_registered = False
        self._ticked_at_ms = -1
        self._open_metadata(disk)
        self._open_partitions(disk)
        self._open_doors(network)
        self._lifecycle = BrokerLifecycle(
            clock=clock,
            random=random,
            channel=self._channel,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            listeners=settings.registered_listeners(advertised),
            rack=config.broker_rack,
            metadata_offset=lambda: self._loader.applied_offset,
            directory_ids=lambda: sorted(self.logs.directory_ids().values()),
            offline_directory_ids=self.logs.offline_directory_ids,
            previous_broker_epoch=self.logs.previous_broker_epoch(),
            config=settings.lifecycle_config(config),
        )

    def _open_metadata(self, disk: Disk) -> None:
        """Make the quorum's replica, the controller, and the way from the log to the image."""
        config = self.config
        properties = settings.require_formatted(disk, config.metadata_log_dir)
        self.cluster_id = properties.cluster_id
        self.metadata = MetadataCache()
        self.raft: RaftClient[MetadataRecord] = RaftClient(
            disk=disk,
            clock=self.clock,
            directory=config.metadata_log_dir,
            node_id=config.node_id,
            directory_id=properties.directory_id or ZERO_UUID,
            serde=MetadataRecordSerde(),
            static_voters=settings.static_voters(config),
            config=settings.raft_config(config),
            on_failure=lambda error: self._fail(f"the metadata log failed: {error}"),
        )
        self.controller = Controller(
            raft=self.raft,
            clock=self.clock,
            random=self._random,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            bootstrap=read_bootstrap(disk, config.metadata_log_dir),
            has_broker=config.is_broker,
            config=settings.controller_config(config),
        )
        self._channel = LocalControllerChannel(self.controller)
        self._snapshots = SnapshotGenerator(raft=self.raft, clock=self.clock, config=settings.snapshot_config(config))
        self._loader = MetadataLoader()

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
            config=settings.log_manager_config(config),
            on_directory_failure=self._on_directory_failure,
        )
        self.logs.start(config_of_topic=self._topic_config)
        self.replicas = ReplicaManager(
            node_id=config.node_id,
            logs=self.logs,
            clock=self.clock,
            config_of_topic=self._topic_config,
            syncs_before_commit=config.ottla_acks_fsync,
        )
        self.groups = GroupCoordinator(
            config=settings.group_config(config),
            clock=self.clock,
            random=self._random,
            log=ReplicatedOffsetsLog(self.replicas),
            offsets_partition_count=lambda: self.metadata.partition_count(CONSUMER_OFFSETS_TOPIC),
        )

    def _open_doors(self, network: Network) -> None:
        """Make what serves clients."""
        config = self.config
        self.services = Services(
            clock=self.clock,
            random=self._random,
            config=config,
            cluster_id=self.cluster_id,
            metadata=self.metadata,
            raft=self.raft,
            controller=self._channel,
            logs=self.logs,
            replicas=self.replicas,
            fetch_sessions=FetchSessions(
                random=self._random, slots_max=config.max_incremental_fetch_session_cache_slots
            ),
            groups=self.groups,
            producer_ids=ProducerIds(allocate_block=self._allocate_producer_ids),
        )
        self.gateway = Gateway(
            services=self.services,
            network=network,
            config=settings.gateway_config(config),
            roles=settings.listener_roles(config),
            security_protocols={door.name: door.security_protocol for door in config.listeners},
        )

    # --- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join the cluster; `tick` does the rest.

        Raises:
            ConfigurationError: the metadata log belongs to another quorum.
            StorageError: the disk refused.
        """
        groups = GroupPartitionsPublisher(node_id=self.config.node_id, replicas=self.replicas, groups=self.groups)
        dynamic = DynamicConfigPublisher(self.config, self._use_config)
        for publisher in (self.metadata, dynamic, self.replicas, groups, self._snapshots):
            self._loader.add_publisher(publisher)
        self.raft.register(self._loader)
        self.raft.register(self.controller)
        self.raft.initialize()

    def _register(self) -> None:
        """Ask the controller to let this broker in; there is one by now, as the metadata begins with its records."""
        self._has_registered = True
        self._lifecycle.start()
        self._lifecycle.set_ready_to_unfence()
        self._lifecycle.unfenced.on_complete(lambda _: self._become_ready())

    def begin_shutdown(self) -> None:
        """Hand leadership over in order, then report through ``on_stopped``."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if not self.config.controlled_shutdown_enable:
            self._on_stopped(None)
            return
        logger.info("shutting down: asking the controller to move leaders away")
        self._lifecycle.begin_controlled_shutdown().on_complete(lambda _: self._on_stopped(None))

    def close(self) -> None:
        """Close every log so that the next start need not recover; the node is of no use afterwards."""
        self.logs.close(broker_epoch=self._lifecycle.broker_epoch)
        self.raft.close()

    def _use_config(self, config: NodeConfig) -> None:
        """Take settings that were changed while the node runs."""
        self.services.config = config
        self.gateway.config = settings.gateway_config(config)
        self.logs.set_producer_id_expiration(config.producer_id_expiration_ms)

    def _become_ready(self) -> None:
        strays = self.replicas.remove_strays()
        if strays:
            logger.warning("moved aside logs that belong to no topic any more: %s", ", ".join(map(str, strays)))
        self._on_ready()

    def _fail(self, reason: str) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._on_stopped(reason)

    # --- how it is -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> BrokerState:
        return self._lifecycle.state

    def readiness(self) -> list[str]:
        """Return why this node does not serve clients, in words; empty when it does."""
        reasons = []
        if self._is_stopping:
            reasons.append("the node is shutting down")
        if self.controller_id is None:
            reasons.append("the quorum has no leader yet")
        if self.state is not BrokerState.RUNNING:
            reasons.append(f"the broker is in state {self.state.name}: the controller has not let it in")
        reasons += [f"log directory {path} is offline" for path in self.logs.offline_directories()]
        return reasons

    @property
    def controller_id(self) -> int | None:
        """Node id of the active controller; None while there is none."""
        return self._channel.active_controller_id

    # --- what the driver calls -----------------------------------------------------------------------------------

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint) -> bool:
        return self.gateway.accepted(connection, listener=listener, peer=peer, dialled=dialled)

    def connected(self, connection: ConnectionId) -> None:
        """A connection that this node opened is up."""

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self.gateway.receive_buffer(connection)

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        self.gateway.received(connection, size_bytes)

    def drained(self, connection: ConnectionId) -> None:
        self.gateway.drained(connection)

    def closed(self, connection: ConnectionId, reason: str) -> None:
        self.gateway.closed(connection, reason)

    def tick(self) -> None:
        """Do what is due; at most once a millisecond, so that it may be called after every read."""
        now_ms = self.clock.monotonic_ms()
        if now_ms == self._ticked_at_ms:
            return
        self._ticked_at_ms = now_ms
        self.replicas.tick(now_ms)
        self.raft.tick(now_ms)
        self.controller.tick(now_ms)
        if not self._has_registered and self.metadata.offset >= 0:
            self._register()
        self._lifecycle.tick(now_ms)
        self.groups.tick(now_ms)
        self._snapshots.tick(now_ms)
        self.logs.tick(now_ms)
        self.gateway.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is to be called next at the latest, by the monotonic clock."""
        deadlines = [
            self.replicas.next_deadline_ms(),
            self.raft.next_deadline_ms(),
            self.controller.next_deadline_ms(),
            self._lifecycle.next_deadline_ms(),
            self.groups.next_deadline_ms(),
            self._snapshots.next_deadline_ms(),
            self.logs.next_tick_ms(self.clock.monotonic_ms()),
            self.gateway.next_deadline_ms(),
        ]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- between the parts ---------------------------------------------------------------------------------------

    def _allocate_producer_ids(self) -> Delayed[AllocateProducerIdsResponse]:
        request = AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=self._lifecycle.broker_epoch)
        return self._channel.send(request)  # type: ignore[return-value]

    def _on_directory_failure(self, path: str, error: StorageError) -> None:
        logger.error("log directory %s failed and is offline from now on: %s", path, error)
        self.replicas.on_directory_failure(self.logs.lost_partitions(path))
        if path == self.config.metadata_log_dir or not self.logs.directory_ids():
            self._fail(f"log directory {path}, which this node cannot do without, failed: {error}")
