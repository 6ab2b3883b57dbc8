"""Drivers of recorded scenarios: our coordinator in this process, and a running Kafka."""

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from group_requests import Names
from ottla.groups.config import GroupConfig
from ottla.groups.migration.policy import MigrationPolicy
from ottla.purgatory import Delayed
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version, response_type
from recording_persister import RecordingPersister

SETTLE_S = 0.1
ORDER_S = 0.03
"""Pause in which Kafka processes one request before the next one is sent over another connection."""


CHANGES_OF_TOPICS = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)


class CoordinatorDriver:
    """Runs commands on a coordinator in this process; time is its simulated clock."""

    def __init__(self, new_group_node: Callable[..., Any], options: dict[str, Any]) -> None:
        settings: dict[str, Any] = {
            "min_session_timeout_ms": 100,
            "initial_rebalance_delay_ms": 500,
            "consumer_session_timeout_ms": 2000,
            "consumer_heartbeat_interval_ms": 500,
            "consumer_settling_heartbeat_interval_ms": 0,
            "consumer_assignment_interval_ms": 0,
            "share_session_timeout_ms": 2000,
            "share_heartbeat_interval_ms": 500,
            "share_assignment_interval_ms": 0,
            "share_initialize_retry_interval_ms": 1000,
            "streams_session_timeout_ms": 2000,
            "streams_heartbeat_interval_ms": 500,
            "streams_assignment_interval_ms": 0,
            "streams_initial_rebalance_delay_ms": 0,
            **options,
        }
        if "consumer_migration_policy" in options:
            settings["consumer_migration_policy"] = MigrationPolicy(options["consumer_migration_policy"])
        self.node = new_group_node(config=GroupConfig(**settings), persister=RecordingPersister())
        self.names = Names()
        self.names.topic_ids = {name: self.node.metadata.topic_id(name) for name in ("t", "u")}
        self._responses: list[tuple[str, Any]] = []

    def set_topic_id(self, name: str, topic_id: Uuid) -> None:
        """Create a topic again with another id."""
        count = self.node.metadata.partition_count(name)
        self.node.delete_topic(name)
        self.node.add_partitions(name, range(count), topic_id)
        self.names.topic_ids[name] = topic_id

    def send(self, client: str, request: Message, version: int) -> None:
        if isinstance(request, CreateTopicsRequest | CreatePartitionsRequest | DeleteTopicsRequest):
            response = Delayed.of(self.node.change_topics(request))
        else:
            response = self.node.call(request, version, client_id=client)
        response.on_complete(lambda response: self._responses.append((client, response)))

    def advance(self, milliseconds: int) -> None:
        self.node.advance(milliseconds)

    def responses(self) -> list[tuple[str, Any]]:
        responses, self._responses = self._responses, []
        return responses

    def close(self) -> None:
        pass


class KafkaDriver:
    """Runs commands on a broker at ``BOOTSTRAP``, each client over a connection of its own.

    A client that waits for a response cannot send another request: Kafka does not read the connection meanwhile.
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        host, _, port = bootstrap.partition(":")
        self.address = (host, int(port))
        self.names = Names(f"-{name}-{time.time_ns()}")
        self.connections: dict[str, socket.socket] = {}
        self.waiting: dict[str, list[tuple[ApiKey, int]]] = {}
        topics = [MetadataRequestTopic(name=name) for name in ("t", "u")]
        self.send("setup", MetadataRequest(topics=topics), 12)
        ((_, response),) = self.responses()
        self.names.topic_ids = {topic.name: topic.topic_id for topic in response.topics}

    def send(self, client: str, request: Message, version: int) -> None:
        api_key = ApiKey(request.api_key)
        if client not in self.connections:
            self.connections[client] = socket.create_connection(self.address)
        header = RequestHeader(
            request_api_key=int(api_key), request_api_version=version, correlation_id=1, client_id=client
        )
        frame = header.encode(request_header_version(api_key, version)) + request.encode(version)
        self.connections[client].sendall(struct.pack(">i", len(frame)) + frame)
        time.sleep(ORDER_S if api_key not in CHANGES_OF_TOPICS else SETTLE_S)
        self.waiting.setdefault(client, []).append((api_key, version))

    def advance(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    def responses(self) -> list[tuple[str, Any]]:
        found = []
        while ready := select.select(list(self.connections.values()), [], [], SETTLE_S)[0]:
            for client, connection in self.connections.items():
                if connection in ready:
                    found.append((client, self._receive(client, connection)))
        return found

    def _receive(self, client: str, connection: socket.socket) -> Any:
        (size,) = struct.unpack(">i", self._read(connection, 4))
        frame = self._read(connection, size)
        api_key, version = self.waiting[client].pop(0)
        _, position = ResponseHeader.decode_from(frame, response_header_version(api_key, version))
        return response_type(api_key).decode(frame, version, position)

    @staticmethod
    def _read(connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = connection.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
