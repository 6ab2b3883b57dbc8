"""`Node`: one broker, controller or both, put together from its parts; synchronous and sans-IO.

The driver (the real reactor, or the simulator) hands in connections and bytes, calls `tick` when `next_deadline_ms`
says so, and delivers completions; everything else happens here, in one thread. Starting is a chain of events, not a
script: raft elects, the metadata log is read, the first image starts the logs, the controller lets the broker in.

Source: KafkaRaftServer, SharedServer, BrokerServer and ControllerServer of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable

from ottla.config.node_config import NodeConfig
from ottla.controller.channel import LocalControllerChannel
from ottla.controller.controller import Controller
from ottla.controller.lifecycle import BrokerLifecycle, BrokerState
from ottla.errors import StorageError
from ottla.groups.coordinator import GroupCoordinator
from ottla.handlers.api import ListenerRole
from ottla.handlers.services import Services
from ottla.log.manager import LogManager
from ottla.metadata.cache import MetadataCache
from ottla.metadata.cluster import Listener, SecurityProtocol
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.ports import Clock, ConnectionId, Disk, Network, Random
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.replication.fetch_session import FetchSessions
from ottla.replication.replica_manager import ReplicaManager
from ottla.server import settings
from ottla.server.gateway import Gateway
from ottla.server.group_partitions import GroupPartitionsPublisher, ReplicatedOffsetsLog
from ottla.transactions.producer_ids import ProducerIds
from ottla.types import CONSUMER_OFFSETS_TOPIC, Endpoint
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

logger = logging.getLogger(__name__)
