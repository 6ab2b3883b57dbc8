"""The cluster as a client sees it: nodes, leaders of partitions, coordinators of groups; with retries.

One `Cluster` keeps at most one connection per node and purpose, opened on first use. Its metadata of a topic is
refreshed after a response that shows it to be stale. In KRaft any broker forwards admin requests to the controller.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from ottla.client.connection import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, Connection, ResponseT, SendOptions
from ottla.client.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    RequestTimeoutError,
    kafka_error,
    raise_for,
)
from ottla.config.listeners import parse_bootstrap_text
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, NodeId, TopicPartition, Uuid, format_uuid
from ottla.wire.codec import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 1.0
ATTEMPT_TIMEOUT_S_MIN = 5.0
GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1

# A broker responds to a connection's requests in order, so a JoinGroup that waits for other members would delay fetches
# and heartbeats. Requests to group coordinators have their own connections, as in Java's clients; so have those to
# transaction coordinators.
ORDINARY = "ordinary"
COORDINATION = "coordination"
TRANSACTIONS = "transactions"

# The errors of a broker whose metadata does not have a new topic yet.
NOT_THERE_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Metadata:
    """The last metadata of nodes and topics."""

    cluster_id: str = ""
    controller_id: NodeId = -1
    nodes: dict[NodeId, Endpoint] = field(default_factory=dict)
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)


class Cluster:
    """Connections and metadata, shared by admin, producer and consumer. Use with ``async with``, or call `close`."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint],
        *,
        client_id: str = "ottla",
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Store the settings; nothing is sent before the first request.

        Args:
            bootstrap_servers: ``host:port[,host:port...]``, or the addresses themselves.
            client_id: the client id in brokers' logs and quotas.
            request_timeout_s: limit of one request with all its retries, unless a call overrides it.
            connect_timeout_s: limit of one attempt to connect; less if ``request_timeout_s`` would otherwise not
                suffice for an attempt at every bootstrap address.
            security: TLS and SASL settings; None: neither.

        Raises:
            ConfigurationError: the string is not a list of ``host:port``.
        """
        if isinstance(bootstrap_servers, str):
            bootstrap_servers = parse_bootstrap_text(bootstrap_servers)
        self.bootstrap = tuple(bootstrap_servers)
        self.client_id = client_id
        self.request_timeout_s = request_timeout_s
        self._connect_timeout_s = min(connect_timeout_s, request_timeout_s / max(1, len(self.bootstrap)))
        self._security = security
        self._metadata = _Metadata()
        self._connections: dict[tuple[Endpoint, str], Connection] = {}
        self._opening: dict[tuple[Endpoint, str], asyncio.Lock] = {}
        self._coordinators: dict[tuple[int, str], Endpoint] = {}
        self.last_responder: Endpoint | None = None
        """The node of the last response to `send_to_any`."""
        self._silent: dict[Endpoint, None] = {}
        """Nodes whose response timed out, in order; they are tried last until they respond again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.close() for connection in connections))

    # --- metadata ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[NodeId, Endpoint]:
        """Brokers by id, as of the last metadata."""
        return self._metadata.nodes

    @property
    def cluster_id(self) -> str:
        return self._metadata.cluster_id

    @property
    def controller_id(self) -> NodeId:
        return self._metadata.controller_id

    async def metadata(self, topics: Sequence[str] | None = (), *, create: bool = False) -> MetadataResponse:
        """Request the metadata of nodes and ``topics`` (None: all; empty: nodes only) from any broker, and keep it.

        Topics that do not exist are returned with their error code; ``create`` lets the broker create them.

        Raises:
            BrokerUnreachableError: no broker responds.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        return await self._request_metadata(MetadataRequest(topics=wanted, allow_auto_topic_creation=create))

    async def _request_metadata(self, request: MetadataRequest) -> MetadataResponse:
        response = await self.send_to_any(request, MetadataResponse)
        raise_for(response.error_code)
        if response.brokers:
            self._metadata.nodes = {broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers}
        self._metadata.cluster_id = response.cluster_id or ""
        self._metadata.controller_id = response.controller_id
        for topic in response.topics:
            if topic.name is not None:
                self._metadata.topics[topic.name] = topic
        return response

    async def reach(self, *, timeout_s: float) -> None:
        """Return once any node has responded; interactive callers learn soon that no broker is running.

        Raises:
            BrokerUnreachableError: no node responded for ``timeout_s``.
        """
        await self.retry(self.metadata, timeout_s=timeout_s)

    def invalidate_topic(self, name: str) -> None:
        """Drop the metadata of ``name``, which is stale according to a broker; the next use requests it again."""
        self._metadata.topics.pop(name, None)

    async def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """Return the metadata of a topic, and request it if necessary.

        Raises:
            KafkaError: the broker's code, UNKNOWN_TOPIC_OR_PARTITION if there is no such topic.
        """
        known = self._metadata.topics.get(name)
        if known is None or known.error_code:
            await self.metadata([name], create=create)
            known = self._metadata.topics[name]
        if known.error_code:
            self.invalidate_topic(name)
            raise kafka_error(known.error_code, _explain_topic(name, known.error_code))
        return known

    async def topic_names(self, topic_ids: Collection[Uuid]) -> dict[Uuid, str]:
        """Return the names of topics by id, without those that do not exist; request them if necessary.

        Raises:
            KafkaError: an error of a topic, such as TOPIC_AUTHORIZATION_FAILED.
        """
        names = {topic.topic_id: name for name, topic in self._metadata.topics.items() if topic.topic_id in topic_ids}
        unknown = [MetadataRequestTopic(topic_id=each, name=None) for each in topic_ids if each not in names]
        if unknown:
            response = await self._request_metadata(MetadataRequest(topics=unknown, allow_auto_topic_creation=False))
            for topic in response.topics:
                if topic.name is not None and not topic.error_code:
                    names[topic.topic_id] = topic.name
                elif topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                    raise_for(topic.error_code, f"topic {topic.name or format_uuid(topic.topic_id)}")
        return names

    async def partitions(self, name: str) -> list[int]:
        """Return a topic's partition numbers in order; raises as `topic`."""
        return sorted(partition.partition_index for partition in (await self.topic(name)).partitions)

    async def leader(self, partition: TopicPartition, *, create: bool = False) -> NodeId:
        """Return the node that leads ``partition``.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE while there is none.
        """
        topic = await self.topic(partition.topic, create=create)
        found: MetadataResponsePartition | None = next(
            (entry for entry in topic.partitions if entry.partition_index == partition.partition), None
        )
        if found is None:
            self.invalidate_topic(partition.topic)
            count = len(topic.partitions)
            raise kafka_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {partition.topic} has partitions 0 to {count - 1}, not {partition.partition}",
            )
        if found.leader_id < 0 or found.leader_id not in self.nodes:
            self.invalidate_topic(partition.topic)
            raise kafka_error(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader at the moment")
        return found.leader_id

    # --- sending -------------------------------------------------------------------------------------------------

    async def send_to_any(
        self, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]
    ) -> ResponseT:
        """Send to any node: open connections first, then known nodes, then the bootstrap addresses.

        ``options`` are those of `Connection.send`.

        Raises:
            BrokerUnreachableError: no node could be reached; the message lists each attempt.
            RequestTimeoutError: a node did not respond to the request; the next call tries another one first.
        """
        attempts: list[str] = []
        for endpoint in self._candidates():
            try:
                response = await (await self._connection(endpoint)).send(request, response_type, **options)
            except (BrokerUnreachableError, ConnectionLostError) as error:
                attempts.append(str(error))
            except RequestTimeoutError:
                # A process that hangs keeps its sockets open: the next request must go to another node.
                self._silent[endpoint] = None
                raise
            else:
                self._silent.pop(endpoint, None)
                self.last_responder = endpoint
                return response
        raise BrokerUnreachableError(
            "; ".join(dict.fromkeys(attempts)) or "no bootstrap server was given; use host:port"
        )

    async def reach_any(self) -> Endpoint:
        """Return a node that accepts a new connection: an old one might still be busy with another request.

        Raises:
            BrokerUnreachableError: no node could be reached; the message lists each attempt.
        """
        attempts: list[str] = []
        for endpoint in self._candidates():
            try:
                await (await self._open(endpoint)).close()
            except (BrokerUnreachableError, ConnectionLostError) as error:
                attempts.append(str(error))
            else:
                return endpoint
        raise BrokerUnreachableError("; ".join(dict.fromkeys(attempts)))

    async def send_to_node(
        self, node_id: NodeId, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]
    ) -> ResponseT:
        """Send to one broker by id.

        Raises:
            BrokerUnreachableError: it cannot be reached, or no broker has that id.
        """
        return await (await self.node_connection(node_id)).send(request, response_type, **options)

    async def node_connection(self, node_id: NodeId) -> Connection:
        """Return the open connection to a broker; raises as `send_to_node`."""
        if node_id not in self.nodes:
            await self.metadata()
        endpoint = self.nodes.get(node_id)
        if endpoint is None:
            raise BrokerUnreachableError(f"no broker has the id {node_id}; there are {sorted(self.nodes)}")
        return await self._connection(endpoint)

    async def send_to_leader(
        self,
        partition: TopicPartition,
        request: Message,
        response_type: type[ResponseT],
        **options: Unpack[SendOptions],
    ) -> ResponseT:
        """Send to the leader of ``partition``; raises as `leader` and `send_to_node`."""
        return await self.send_to_node(await self.leader(partition), request, response_type, **options)

    async def send_to_coordinator(
        self, group_id: str, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]
    ) -> ResponseT:
        """Send to the coordinator of a group.

        Raises:
            KafkaError: the broker knows none, for example COORDINATOR_NOT_AVAILABLE.
            BrokerUnreachableError: it cannot be reached.
        """
        connection = await self._connection(await self.coordinator(group_id), COORDINATION)
        return await connection.send(request, response_type, **options)

    async def transaction_coordinator(self, transactional_id: str) -> Connection:
        """Return the connection to the coordinator of a transactional id; raises as `send_to_coordinator`."""
        endpoint = await self._find_coordinator(TRANSACTION_COORDINATOR, transactional_id)
        return await self._connection(endpoint, TRANSACTIONS)

    async def coordinator(self, group_id: str) -> Endpoint:
        """Return the address of a group's coordinator, requested on first use; raises as `send_to_coordinator`."""
        return await self._find_coordinator(GROUP_COORDINATOR, group_id)

    async def _find_coordinator(self, key_type: int, key: str) -> Endpoint:
        known = self._coordinators.get((key_type, key))
        if known is None:
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            # Version 3 is the last one with a single key, which is all that is needed here.
            response = await self.send_to_any(request, FindCoordinatorResponse, highest=3)
            raise_for(response.error_code, response.error_message)
            known = self._coordinators[key_type, key] = Endpoint(response.host, response.port)
        return known

    def invalidate_coordinator(self, group_id: str) -> None:
        """Drop the address of the coordinator; the next use requests it again."""
        self._coordinators.pop((GROUP_COORDINATOR, group_id), None)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[ResultT]],
        *,
        timeout_s: float | None = None,
        also: Iterable[ErrorCode] = (),
        never: Iterable[ErrorCode] = NOT_THERE_YET,
        group_id: str | None = None,
        transactional_id: str | None = None,
    ) -> ResultT:
        """Call ``attempt`` until it succeeds, fails for good, or the time is over.

        Args:
            attempt: runs one attempt; its exception decides about a retry.
            timeout_s: limit of all attempts together; None: the cluster's ``request_timeout_s``.
            also: codes to retry beyond those that Kafka calls retriable.
            never: codes not to retry although Kafka calls them retriable.
            group_id: the group whose coordinator is requested again after a failure.
            transactional_id: likewise.

        Raises:
            The last failure of ``attempt``.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.request_timeout_s if timeout_s is None else timeout_s)
        backoff_s = BACKOFF_FIRST_S
        extra, final = frozenset(also), frozenset(never)
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                may_help = error.code in extra or (error.code.is_retriable and error.code not in final)
                if not may_help or loop.time() + backoff_s > deadline:
                    raise
            except (BrokerUnreachableError, ConnectionLostError, RequestTimeoutError):
                if loop.time() + backoff_s > deadline:
                    raise
                # The node may have stopped, and its partitions may have other leaders by now.
                self._metadata.topics.clear()
            if group_id is not None:
                self.invalidate_coordinator(group_id)
            if transactional_id is not None:
                self._coordinators.pop((TRANSACTION_COORDINATOR, transactional_id), None)
            await asyncio.sleep(backoff_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads retries, hides nothing
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    @property
    def attempt_timeout_s(self) -> float:
        """The timeout of one node's response: less than ``request_timeout_s`` if there is another node to try."""
        if len(self._candidates()) < 2:
            return self.request_timeout_s
        return min(self.request_timeout_s, max(ATTEMPT_TIMEOUT_S_MIN, self.request_timeout_s / 3))

    def _candidates(self) -> list[Endpoint]:
        known = [endpoint for (endpoint, _), connection in self._connections.items() if connection.is_open]
        everyone = dict.fromkeys([*known, *self.nodes.values(), *self.bootstrap])
        return sorted(everyone, key=lambda endpoint: endpoint in self._silent)

    async def _connection(self, endpoint: Endpoint, purpose: str = ORDINARY) -> Connection:
        key = (endpoint, purpose)
        async with self._opening.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is None or not connection.is_open:
                if connection is not None:
                    await connection.close()
                connection = self._connections[key] = await self._open(endpoint)
            return connection

    async def _open(self, endpoint: Endpoint) -> Connection:
        return await Connection.open(
            endpoint, client_id=self.client_id, timeout_s=self._connect_timeout_s, security=self._security
        )


def _explain_topic(name: str, code: int) -> str | None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {name!r}"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"this user may not do that with topic {name!r}, whether it is there or not"
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{name!r} is not a topic's name: use letters, digits, '.', '_' and '-', at most 249 of them"
    return None
