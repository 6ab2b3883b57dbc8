"""`DataPlane`: a node's logs, replicas and coordinators."""

from collections.abc import Callable

from ottla.config.node_config import NodeConfig
from ottla.coordinator.publisher import CoordinatorPublisher
from ottla.coordinator.replicated_log import ReplicatedCoordinatorLog
from ottla.errors import StorageError
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.share.end_offsets import EndOffsetClient
from ottla.log.manager import LogManager
from ottla.metadata.cache import MetadataCache
from ottla.metadata.metadata_version import TRANSACTION_VERSION
from ottla.node import coordinator_settings, settings
from ottla.node.metadata_plane import MetadataPlane
from ottla.node.part import Part
from ottla.peers.client import PeerClient
from ottla.ports import BackgroundTasks, Clock, Disk, Random
from ottla.purgatory import Delayed
from ottla.replication.peer_brokers import PeerBrokers
from ottla.replication.replica_manager import ReplicaManager
from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_state.client import PersisterClient
from ottla.share_state.coordinator import ShareCoordinator
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.offset_verification import OffsetCommitVerifier
from ottla.transactions.producer_ids import ProducerIds
from ottla.transactions.verifier import TransactionVerifier
from ottla.types import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Offset
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


class DataPlane:
    """Log manager, replica manager, group, transaction and share coordinator.

    The constructor locks the log directories, loads every log and recovers those that were not closed cleanly.

    Attributes:
        persister: the state of share-partitions, for leaders and the group coordinator.

    Args of the constructor:
        broker_epoch: returns the epoch of the broker's registration.
        allocate_producer_ids: requests a block of producer ids from the controller.
        on_directory_failure: receives the path of a failed log directory, and the error.
        verifies_transactions: returns whether transactional appends are verified now, which is a dynamic setting.

    Raises of the constructor:
        ConfigurationError: a directory is not formatted, belongs to another node or cluster, or is in use.
        StorageError: every log directory failed, or that of the metadata log.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        disk: Disk,
        clock: Clock,
        random: Random,
        background: BackgroundTasks,
        peers: PeerClient,
        metadata_plane: MetadataPlane,
        descriptor_limit: int,
        broker_epoch: Callable[[], Offset],
        allocate_producer_ids: Callable[[], Delayed[AllocateProducerIdsResponse]],
        on_directory_failure: Callable[[str, StorageError], None],
        verifies_transactions: Callable[[], bool],
    ) -> None:
        metadata = metadata_plane.cache
        topic_config = settings.topic_log_config(config, metadata)
        self.logs = LogManager(
            disk=disk,
            clock=clock,
            random=random,
            log_directories=settings.log_directories(config),
            node_id=config.node_id,
            cluster_id=metadata_plane.cluster_id,
            config=settings.log_manager_config(config, descriptor_limit),
            on_directory_failure=on_directory_failure,
            background=background,
        )
        self.logs.choice.cordon(config.cordoned_directories)
        self.logs.start(config_of_topic=topic_config)
        if config.metadata_log_dir in self.logs.offline_directories():
            raise StorageError(f"log directory {config.metadata_log_dir} failed, and with it the metadata log")
        self.replicas = ReplicaManager(
            node_id=config.node_id,
            logs=self.logs,
            clock=clock,
            config_of_topic=topic_config,
            peer_brokers=PeerBrokers(
                channel=peers,
                endpoint_of=lambda broker: metadata.broker_endpoint(broker, config.inter_broker_listener_name),
                send_to_controller=metadata_plane.channel.send,
                broker_epoch=broker_epoch,
            ),
            background=background,
            config=settings.replication_config(config),
        )
        self.producer_ids = ProducerIds(allocate_block=allocate_producer_ids)
        share_log = self._create_share_coordinator(config, clock, peers, metadata)
        self._create_coordinators(config, clock, random, peers, metadata, verifies_transactions)
        self.coordinators: list[Part] = [self.groups, self.transactions, self.transaction_verifier]
        self.coordinators += [self.share_coordinator, self.persister, self._end_offsets]
        self.coordinator_publishers = (
            CoordinatorPublisher(node_id=config.node_id, log=self._offsets_log, coordinator=self.groups),
            CoordinatorPublisher(node_id=config.node_id, log=self._transactions_log, coordinator=self.transactions),
            CoordinatorPublisher(node_id=config.node_id, log=share_log, coordinator=self.share_coordinator),
        )
        self.share_partitions = SharePartitionManager(
            config=coordinator_settings.share_partitions_config(config),
            clock=clock,
            replicas=self.replicas,
            persister=self.persister,
            group_config=metadata.group_config,
        )

    def _create_coordinators(
        self,
        config: NodeConfig,
        clock: Clock,
        random: Random,
        peers: PeerClient,
        metadata: MetadataCache,
        verifies_transactions: Callable[[], bool],
    ) -> None:
        self._transactions_log = ReplicatedCoordinatorLog(TRANSACTION_STATE_TOPIC, self.replicas)
        self.transactions = TransactionCoordinator(
            config=coordinator_settings.transaction_config(config),
            clock=clock,
            log=self._transactions_log,
            channel=peers,
            leaders=metadata,
            listener=config.inter_broker_listener_name,
            request_timeout_ms=config.request_timeout_ms,
            producer_ids=self.producer_ids,
            partition_count=lambda: metadata.partition_count(TRANSACTION_STATE_TOPIC),
            transaction_version=lambda: metadata.feature_level(TRANSACTION_VERSION),
        )
        self.transaction_verifier = TransactionVerifier(
            channel=peers,
            clock=clock,
            metadata=metadata,
            partition_for=self.transactions.partition_for,
            listener=config.inter_broker_listener_name,
            timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.add_partitions_to_txn_retry_backoff_ms,
            retry_backoff_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        verifier = OffsetCommitVerifier(
            verifier=self.transaction_verifier,
            clock=clock,
            find=self.replicas.find,
        )
        self._offsets_log = ReplicatedCoordinatorLog(
            CONSUMER_OFFSETS_TOPIC, self.replicas, lambda: verifier.verify if verifies_transactions() else None
        )
        self._end_offsets = EndOffsetClient(
            channel=peers,
            clock=clock,
            metadata=metadata,
            listener=config.inter_broker_listener_name,
            timeout_ms=config.request_timeout_ms,
        )
        self.groups = GroupCoordinator(
            config=coordinator_settings.group_config(config),
            clock=clock,
            random=random,
            log=self._offsets_log,
            metadata=metadata,
            persister=self.persister,
            end_offsets=self._end_offsets,
        )

    def _create_share_coordinator(
        self,
        config: NodeConfig,
        clock: Clock,
        peers: PeerClient,
        metadata: MetadataCache,
    ) -> ReplicatedCoordinatorLog:
        """Create the share coordinator and the client of all share coordinators; return the coordinator's log."""
        log = ReplicatedCoordinatorLog(SHARE_GROUP_STATE_TOPIC, self.replicas)
        self.share_coordinator = ShareCoordinator(
            config=coordinator_settings.share_state_config(config),
            clock=clock,
            log=log,
            topics=metadata,
            partition_count=lambda: metadata.partition_count(SHARE_GROUP_STATE_TOPIC),
        )
        self.persister = PersisterClient(
            node_id=config.node_id,
            own=self.share_coordinator,
            channel=peers,
            clock=clock,
            metadata=metadata,
            partition_for=self.share_coordinator.partition_for,
            listener=config.inter_broker_listener_name,
            timeout_ms=config.request_timeout_ms,
        )
        return log
