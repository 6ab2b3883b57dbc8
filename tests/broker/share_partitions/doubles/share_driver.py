"""`ShareDriver`: a simulated broker whose share-partitions keep their state in a double."""

import re

import pytest
import yaml

from ottla.log.partition_log import AppendOrigin
from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_partitions.settings import SharePartitionsConfig
from ottla.simulator.world.single_node import Client
from ottla.types import Endpoint
from ottla.wire.messages.registry import request_type
from ottla.wire.records import Record, build_batch
from recording_persister import RecordingPersister
from scenario_broker import SimulatedDriver, api_key_of
from scenario_file import response_line
from scenario_messages import Names, message_of, plain

RECORD_TIME_MS = 1_700_000_000_000


class ShareDriver(SimulatedDriver):
    """A simulated broker whose share-partitions keep their state in a double."""

    def __init__(self) -> None:
        super().__init__()
        node = self._place.node
        self.names = Names("")
        self.persister = RecordingPersister()
        self.group_configs: dict[str, dict[str, str]] = {}
        self.manager = node.services.share_partitions = SharePartitionManager(
            config=SharePartitionsConfig(),
            clock=node.clock,
            replicas=node.replicas,
            persister=self.persister,
            group_config=lambda group_id: self.group_configs.get(group_id, {}),
        )
        node._parts.append(self.manager)

    def topics(self, *topics: str) -> None:
        self._create_topics({name: int(count) for name, count in (each.split("=") for each in topics)}, self.names)

    def group(self, name: str, *configs: str) -> None:
        self.group_configs[name] = dict(each.split("=", 1) for each in configs)

    def member(self, group_id: str, member_id: str) -> None:
        """Do nothing: the double has every state."""

    def produce(self, topic: str, partition: str, count: str) -> None:
        records = [Record(index, RECORD_TIME_MS, None, b"v%d" % index) for index in range(int(count))]
        self.append(topic, int(partition), build_batch(records))

    def append(self, topic: str, partition: int, batch: bytes) -> None:
        """Append a record batch, as a producer does."""
        replicas = self._place.node.replicas
        found = replicas.get(topic, partition)
        replicas.append(found, bytearray(batch), origin=AppendOrigin.CLIENT, required_acks=-1)
        replicas.announce_appends()

    def respond(self, line: str) -> str:
        match = re.fullmatch(r"> (\w+) v(\d+) (.*)", line)
        assert match is not None, line
        version, data = int(match[2]), yaml.safe_load(match[3])
        request = message_of(request_type(api_key_of(match[1])), data, self.names)
        return response_line(plain(self.send(request, version), version, self.names))

    def connect(self) -> Client:
        """Return another connection."""
        node = self._place.node
        peer = self._place._cluster.nodes[1].network.open()
        assert node.accepted(peer.connection, listener="PLAINTEXT", peer=Endpoint("10.0.0.8", 1), local_address=None)
        return Client(self._place, peer)


def leave_out_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out of compared responses what differs from Kafka's."""
    monkeypatch.setattr("scenario_messages.LEFT_OUT", {"throttle_time_ms", "node_endpoints", "session_id"})
