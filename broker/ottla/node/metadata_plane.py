"""`MetadataPlane`: a node's part in the metadata quorum: raft, controller, and the metadata image."""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.config.node_config import NodeConfig
from ottla.controller.quorum_controller import QuorumController
from ottla.membership.controller_channel import NodeToControllerChannel
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.cache import MetadataCache
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.metadata.scram import ScramImage, first_credentials
from ottla.metadata.snapshot_generator import SnapshotGenerator
from ottla.node import settings
from ottla.peers.client import PeerClient
from ottla.peers.peer_names import PeerNames
from ottla.ports import Clock, Disk, Network, Random
from ottla.raft.client import RaftClient
from ottla.raft.replica import other_cluster
from ottla.security.delegation_tokens import DelegationTokens
from ottla.types import ZERO_UUID, Endpoint

PROBE_TIMEOUT_MS: Final = 1_000
"""A broker's listener accepts or rejects a connection at once; longer silence proves nothing."""


class MetadataPlane:
    """Raft client, controller (if the node is one), controller channel, loader and cache of the metadata.

    Args of the constructor:
        on_failure: receives the reason why the node cannot continue.

    Raises of the constructor:
        ConfigurationError: the metadata log directory is not formatted.
        StorageError: the disk failed.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        disk: Disk,
        clock: Clock,
        random: Random,
        network: Network,
        peers: PeerClient,
        on_failure: Callable[[str], None],
    ) -> None:
        properties = settings.require_formatted(disk, config.metadata_log_dir)
        cluster_id = self.cluster_id = properties.cluster_id
        self.cache = MetadataCache(clock)
        listener = config.controller_listener_names[0]
        self.raft: RaftClient[MetadataRecord] = RaftClient(
            disk=disk,
            clock=clock,
            random=random,
            channel=peers,
            directory=config.metadata_log_dir,
            node_id=config.node_id,
            directory_id=properties.directory_id or ZERO_UUID,
            cluster_id=cluster_id,
            serde=MetadataRecordSerde(),
            static_voters=settings.static_voters(config),
            listeners={it.name: it.endpoint for it in config.advertised_controller_listeners},
            listener_name=listener,
            bootstrap_servers=config.controller_quorum_bootstrap_servers,
            is_controller=config.is_controller,
            config=settings.raft_config(config),
            on_failure=lambda error: on_failure(f"the metadata log failed: {error}"),
            on_other_cluster=lambda: on_failure(f"node {config.node_id}: {other_cluster(cluster_id)}"),
        )
        bootstrap = read_bootstrap(disk, config.metadata_log_dir) if config.is_controller else []
        self._first_credentials = first_credentials(bootstrap)
        self.delegation_tokens = DelegationTokens(config.delegation_token_secret_key, clock, random)
        self.controller: QuorumController | None = None
        if config.is_controller:
            self.controller = QuorumController(
                raft=self.raft,
                clock=clock,
                random=random,
                node_id=config.node_id,
                cluster_id=cluster_id,
                bootstrap=bootstrap,
                tokens=self.delegation_tokens,
                has_broker=config.is_broker,
                config=settings.controller_config(config),
                probe=lambda endpoint, listener: peers.probe(endpoint, listener, timeout_ms=PROBE_TIMEOUT_MS),
                ping=lambda endpoint, listener: peers.ping(
                    endpoint, listener, timeout_ms=2 * config.ottla_broker_response_timeout_ms
                ),
            )
        self.channel = NodeToControllerChannel(
            clock=clock,
            peers=peers,
            node_id=config.node_id,
            controller=self.controller,
            leader=lambda: self.raft.leader_and_epoch,
            leader_endpoint=lambda: self.raft.leader_endpoint,
            listener=listener,
            request_timeout_ms=config.request_timeout_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
        )
        self.snapshots = SnapshotGenerator(raft=self.raft, clock=clock, config=settings.snapshot_config(config))
        self.loader = MetadataLoader()
        self.peer_names = PeerNames(network, lambda: self._other_nodes(config))

    def _other_nodes(self, config: NodeConfig) -> Iterator[Endpoint]:
        """Yield the endpoints that this node may have to connect to: of voters, and of brokers."""
        voters, image = self.raft.voters, self.cache.image
        found = [
            *(voters.endpoint_of(each, config.controller_listener_names[0]) for each in voters.node_ids),
            *(self.cache.broker_endpoint(each, config.inter_broker_listener_name) for each in image.cluster.brokers),
        ]
        own = {each.endpoint for each in config.advertised_controller_listeners}
        yield from (each for each in found if each is not None and each not in own)

    def scram(self) -> ScramImage:
        """Return the SCRAM credentials of the newest metadata; before there is any, those of the formatted storage.

        Otherwise controllers that authenticate to each other with SCRAM could never elect a leader.
        """
        image = self.cache.image
        # A log may start with records of the quorum alone: credentials and feature levels come in one transaction.
        return image.scram if image.features.levels else self._first_credentials
