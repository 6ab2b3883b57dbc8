"""A host with clients: it connects to the nodes over the simulated network and sends metadata and other requests.

It uses the nodes' own `PeerClient`, which negotiates API versions and detects broken connections as Kafka's clients
do.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.metadata.metadata_version import TRANSACTION_VERSION
from ottla.peers.channel import PeerResult
from ottla.peers.client import PeerClient
from ottla.peers.config import PeerClientConfig
from ottla.peers.peer_connection import PeerConnection, Pending
from ottla.ports import ConnectionId
from ottla.purgatory import Delayed
from ottla.simulator.invariants.ledger import PartitionKey
from ottla.simulator.invariants.permission_invariants import PermissionInvariants
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.network import SimulatedNetwork
from ottla.simulator.world.node import CLIENT_PORT
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint, NodeId
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.messages.registry import ApiKey

REQUEST_TIMEOUT_MS = 3_000
METADATA_INTERVAL_MS = 100
_BEFORE_VERSION_2: Final = " before version 2"
_HIGHEST_BEFORE_VERSION_2: Final = {
    ApiKey.PRODUCE: 11,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
"""By API, the highest version of a client without an epoch per transaction (KIP-890)."""


class Target(NamedTuple):
    """A partition and the endpoint of its leader."""

    key: PartitionKey
    endpoint: Endpoint


class ClientChannel(PeerClient):
    """`PeerClient` with what only clients do: a Produce with acks=0, which has no response, and `transaction.version`.

    Attributes:
        transaction_version: the newest finalized level that a connection has reported.
    """

    transaction_version = 0
    _features_epoch = -1

    def _on_versions(self, peer: PeerConnection, version: int, result: PeerResult) -> None:
        if isinstance(result, ApiVersionsResponse) and result.finalized_features_epoch > self._features_epoch:
            self._features_epoch = result.finalized_features_epoch
            levels = {each.name: each.max_version_level for each in result.finalized_features}
            self.transaction_version = levels.get(TRANSACTION_VERSION, 0)
        super()._on_versions(peer, version, result)

    def _on_setup_complete(self, peer: PeerConnection) -> None:
        if peer.purpose.endswith(_BEFORE_VERSION_2):
            for api_key, highest in _HIGHEST_BEFORE_VERSION_2.items():
                first, last = peer.versions[api_key]
                peer.versions[api_key] = (first, min(last, highest))
        super()._on_setup_complete(peer)

    def _transmit(self, peer: PeerConnection, pending: Pending) -> None:
        super()._transmit(peer, pending)
        request = pending.request
        if (
            isinstance(request, ProduceRequest)
            and request.acks == 0
            and peer.in_flight
            and peer.in_flight[-1] is pending
        ):
            peer.in_flight.pop()
            pending.result.complete(ProduceResponse())


class ClientHost:
    """See the module. Everything that runs on it shares its connections, one per ``purpose`` and node.

    ``bootstrap`` has the endpoints of its first requests, by default those of all brokers.
    """

    def __init__(
        self, cluster: Cluster, name: str, random: SeededRandom, *, bootstrap: Sequence[Endpoint] | None = None
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.random = random
        self.permissions: PermissionInvariants | None = None
        """Checks the responses to clients in runs that deny them topics."""
        self._network = SimulatedNetwork(cluster.fabric, name)
        self._peers = ClientChannel(
            network=self._network,
            clock=cluster.clock,
            random=random,
            config=PeerClientConfig(client_id=name, connection_setup_timeout_ms=REQUEST_TIMEOUT_MS),
        )
        self._network.attach(self, [])
        self._bootstrap = bootstrap or [
            Endpoint(place.host, CLIENT_PORT) for place in cluster.nodes.values() if "broker" in place.roles
        ]
        self._endpoints: dict[NodeId, Endpoint] = {}
        self._leaders: dict[tuple[str, int], tuple[PartitionKey, NodeId]] = {}
        self._partition_counts: dict[str, int] = {}
        self._topics: dict[str, None] = {}
        self._is_asking = False
        self._may_ask_ms = 0
        cluster.add_client(name, self)

    # --- requests

    def ask(
        self,
        endpoint: Endpoint,
        request: Message,
        purpose: str,
        then: Callable[[PeerResult], object],
        *,
        is_before_version_2: bool = False,
    ) -> None:
        """Send ``request``, and call ``then`` with the response or failure.

        ``is_before_version_2``: in a version of before ``transaction.version`` 2.
        """
        if is_before_version_2 and request.api_key in _HIGHEST_BEFORE_VERSION_2:
            purpose += _BEFORE_VERSION_2
        self.cluster.touch(self.name)
        if self.permissions is not None:
            then = self.permissions.watched(endpoint, request, then)
        self._send(endpoint, request, purpose).on_complete(then)

    def _send(self, endpoint: Endpoint, request: Message, purpose: str) -> Delayed[PeerResult]:
        return self._peers.send(endpoint, "PLAINTEXT", request, timeout_ms=REQUEST_TIMEOUT_MS, purpose=purpose)

    @property
    def transaction_version(self) -> int:
        """The newest finalized level of ``transaction.version`` that a connection of this host has reported."""
        return self._peers.transaction_version

    def any_node(self) -> Endpoint:
        """Return one of the bootstrap brokers."""
        return self._bootstrap[self.random.randrange(len(self._bootstrap))]

    def node(self, node_id: NodeId) -> Endpoint | None:
        return self._endpoints.get(node_id)

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self.cluster.events.after(delay_ms, action)

    # --- metadata

    def partition_count(self, topic: str) -> int:
        """Return the topic's number of partitions; 0 while its metadata is not known."""
        self._topics[topic] = None
        return self._partition_counts.get(topic, 0)

    def target(self, topic: str, partition: int) -> Target | None:
        """Return the leader of a partition; None while it is not known, and its metadata is then requested."""
        self._topics[topic] = None
        found = self._leaders.get((topic, partition))
        endpoint = None if found is None else self._endpoints.get(found[1])
        if found is None or endpoint is None:
            self.refresh()
            return None
        return Target(found[0], endpoint)

    def remove_topic(self, topic: str) -> None:
        """Stop requesting the metadata of a topic that is not in use."""
        self._topics.pop(topic, None)

    def refresh(self) -> None:
        """Request the metadata of all topics in use, at most once per interval."""
        now_ms = self.cluster.clock.monotonic_ms()
        if self._is_asking or now_ms < self._may_ask_ms or not self._topics:
            return
        self._is_asking = True
        self._may_ask_ms = now_ms + METADATA_INTERVAL_MS
        topics = [MetadataRequestTopic(name=topic) for topic in self._topics]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self.ask(self.any_node(), request, "metadata", self._on_metadata)

    def _on_metadata(self, response: PeerResult) -> None:
        self._is_asking = False
        if not isinstance(response, MetadataResponse):
            return
        self._endpoints = {broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            assert topic.name is not None, "topics were asked for by name"
            self._partition_counts[topic.name] = len(topic.partitions)
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                if partition.leader_id < 0:
                    self._leaders.pop(place, None)
                else:
                    key = PartitionKey(topic.name, topic.topic_id, partition.partition_index)
                    self._leaders[place] = (key, partition.leader_id)

    # --- called by the network fabric and the loop

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint) -> bool:
        return False

    def connected(self, connection: ConnectionId) -> None:
        if connection in self._peers.connections:
            self._peers.connected(connection)

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._peers.receive_buffer(connection)

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        self._peers.received(connection, size_bytes)

    def drained(self, connection: ConnectionId) -> None:
        self._peers.drained(connection)

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        self._peers.closed(connection, reason, was_connection_refused=was_connection_refused)

    def tick(self) -> None:
        self._peers.tick(self.cluster.clock.monotonic_ms())

    def next_deadline_ms(self) -> int | None:
        return self._peers.next_deadline_ms()
