"""Runs recorded scenarios against a broker, one request at a time over one connection."""

import re
import socket
import struct
import time
from abc import ABC, abstractmethod
from typing import Any

from ottla.node.node import Node
from ottla.ports import Clock
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.single_node import Client
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.registry import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from scenario_file import Scenario, Step, response_line
from scenario_messages import Names, message_of, plain

TRANSACTION_VERSION = "transaction.version"
ATTEMPTS = 40
PAUSE_S = 0.05
SAFE_DOWNGRADE = 2
UPGRADE = 1
COORDINATOR_TYPES = (0, 1)
CLIENT = Endpoint("10.0.0.7", 5000)
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # The recorded batches have the time of their own clock.
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "log.roll.ms": str(2**63 - 1),
}


def api_key_of(api: str) -> ApiKey:
    """Return the key of an API by its name in Kafka's documentation."""
    return ApiKey[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()]


class ScenarioDriver(ABC):
    """A connection to the only broker of a cluster."""

    @abstractmethod
    def send(self, request: Message, version: int) -> Any:
        """Return the response to ``request``."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Let time pass."""

    def run(self, scenario: Scenario, name: str, transaction_version: int) -> dict[int, str]:
        """Return the responses by the index of their step."""
        names = Names(f"-{name}-{transaction_version}-{self.run_id()}")
        self._finalize(transaction_version)
        self._find_coordinators()
        self._create_topics(scenario.topics, names)
        responses = {}
        for index, step in enumerate(scenario.steps):
            if step.wait_ms is not None:
                self.pause(step.wait_ms / 1000)
            elif step.is_request:
                responses[index] = response_line(self._run_step(step, names))
        return responses

    def _run_step(self, step: Step, names: Names) -> dict[str, Any]:
        api, version, data = step.request()
        request = message_of(request_type(api_key_of(api)), data, names)
        for _ in range(ATTEMPTS):
            response = plain(self.send(request, version), version, names)
            if not step.is_repeated or "CONCURRENT_TRANSACTIONS" not in str(response):
                break
            self.pause(PAUSE_S)
        return response

    def _finalize(self, version: int) -> None:
        for upgrade_type in (UPGRADE, SAFE_DOWNGRADE):
            update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=version, upgrade_type=upgrade_type)
            response = self.send(UpdateFeaturesRequest(feature_updates=[update]), 1)
            if not response.error_code and not any(result.error_code for result in response.results):
                break
        else:
            raise AssertionError(f"{TRANSACTION_VERSION} {version}: {response}")
        self.pause(PAUSE_S * 10)

    def _find_coordinators(self) -> None:
        for key_type in COORDINATOR_TYPES:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
            self._repeat_until_done(request, 5, lambda response: not response.coordinators[0].error_code)
        request = message_of(
            request_type(ApiKey.INIT_PRODUCER_ID),
            {"transactional_id": "any", "transaction_timeout_ms": 1000},
            Names(""),
        )
        self._repeat_until_done(request, 5, lambda response: not response.error_code)

    def _create_topics(self, topics: dict[str, int], names: Names) -> None:
        if not topics:
            return
        created = [
            CreatableTopic(name=names.scoped(topic), num_partitions=count, replication_factor=1)
            for topic, count in topics.items()
        ]
        self.send(CreateTopicsRequest(topics=created, timeout_ms=10_000), 7)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=names.scoped(topic)) for topic in topics])
        response = self._repeat_until_done(
            request,
            12,
            lambda response: all(
                not topic.error_code and all(part.leader_id >= 0 for part in topic.partitions)
                for topic in response.topics
            ),
        )
        list_offsets = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=names.scoped(topic),
                    partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)],
                )
                for topic, count in topics.items()
            ],
        )
        self._repeat_until_done(
            list_offsets,
            7,
            lambda response: not any(part.error_code for topic in response.topics for part in topic.partitions),
        )
        names.topic_ids = {names.unscoped(topic.name): topic.topic_id for topic in response.topics}

    def _repeat_until_done(self, request: Message, version: int, is_done: Any) -> Any:
        for _ in range(ATTEMPTS):
            response = self.send(request, version)
            if is_done(response):
                return response
            self.pause(PAUSE_S)
        raise AssertionError(f"{request}: {response}")

    @abstractmethod
    def run_id(self) -> str:
        """Return a suffix of names that distinguishes this run from others on the same broker."""


class SimulatedPlace:
    """The only broker of a simulated cluster, as `single_node.Client` needs it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def node(self) -> Node:
        return self._cluster.nodes[1].node

    @property
    def clock(self) -> Clock:
        return self._cluster.nodes[1].clock

    def run(self, milliseconds: int) -> None:
        self._cluster.run(milliseconds)


class SimulatedDriver(ScenarioDriver):
    """A broker in memory, whose time passes only here."""

    def __init__(self) -> None:
        cluster = Cluster(brokers=1, overrides=SETTINGS)
        cluster.start()
        cluster.run_until_ready()
        self._place = SimulatedPlace(cluster)
        peer = cluster.nodes[1].network.open()
        assert self._place.node.accepted(peer.connection, listener="PLAINTEXT", peer=CLIENT, local_address=None)
        self._client = Client(self._place, peer)
        self._runs = 0

    def run_id(self) -> str:
        self._runs += 1
        return str(self._runs)

    def send(self, request: Message, version: int) -> Any:
        return self._client.ask(request, response_type(ApiKey(request.api_key)), version)

    def pause(self, seconds: float) -> None:
        self._place.run(round(seconds * 1000))


class SocketDriver(ScenarioDriver):
    """A broker that listens at ``bootstrap``."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=30)

    def close(self) -> None:
        self._connection.close()

    def run_id(self) -> str:
        return str(time.time_ns())

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def send(self, request: Message, version: int) -> Any:
        api_key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=int(api_key), request_api_version=version, correlation_id=1, client_id="scenario"
        )
        frame = header.encode(request_header_version(api_key, version)) + request.encode(version)
        self._connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._read(4))
        data = self._read(size)
        _, position = ResponseHeader.decode_from(data, response_header_version(api_key, version))
        return response_type(api_key).decode(data, version, position)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._connection.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data
