"""Frames of requests between nodes, with the right cluster id, epochs, directories and broker epochs.

With random values the first check would reject them all. Here most fields have values that the node knows, so that the
requests have effects: voters are added and removed, leaders are announced, snapshots are read, brokers register. The
node is a quorum of one, or one of three voters whose others do not respond. Whatever the effect on the quorum, no
defect of the node is logged, and each response can be decoded.
"""

import logging
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from fuzz_target import LISTENERS, Target, check_lines, check_response
from fuzz_values import FRAMES_PER_VERSION, LONG, PLANTED, TOPIC, RandomValues, header_of, list_fields
from ottla.handlers.api import ListenerRole
from ottla.handlers.catalog import CATALOG
from ottla.handlers.envelope import FORWARDABLE
from ottla.metadata.cluster import write_features
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.node.node import Node
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.single_node import Client
from ottla.types import Uuid
from ottla.wire.messages import broker_registration, controller_registration
from ottla.wire.messages.registry import ApiKey, request_type
from ottla.wire.messages.stored_data import DefaultPrincipalData

METADATA_TOPIC = "__cluster_metadata"
OF_THE_QUORUM = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)
OF_BROKERS = (
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ALTER_PARTITION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ENVELOPE,
)
NAMES = {
    "Listener": ("CONTROLLER", "CONTROLLER", "PLAINTEXT", PLANTED, LONG),
    "LeaderEndpoint": ("CONTROLLER", "CONTROLLER", PLANTED, LONG),
    "Feature": ("metadata.version", "metadata.version", "kraft.version", PLANTED, LONG),
}
OF_BOTH = OF_THE_QUORUM + OF_BROKERS
FEATURE_OF: dict[str, type[Any]] = {
    "BrokerRegistrationRequest": broker_registration.Feature,
    "ControllerRegistrationRequest": controller_registration.Feature,
}
LONG_LIST_SIZE = min(FRAMES_PER_VERSION * 40, 99_500)
HOSTILE_EPOCH = 2**31 - 1


class QuorumValues(RandomValues):
    """Values that pass the checks of ``node``."""

    def __init__(self, seed: int, node: Node, *, is_hostile: bool = False) -> None:
        super().__init__(seed, node.metadata.topic_id(TOPIC) or Uuid(bytes(16)))
        self.node = node
        self.is_hostile = is_hostile
        epochs = {"leader_epoch", "replica_epoch", "current_leader_epoch", "last_fetched_epoch", "last_offset_epoch"}
        ids = {"voter_id", "replica_id", "leader_id", "broker_id", "candidate_id", "controller_id", "node_id"}
        directories = {"voter_directory_id", "replica_directory_id", "candidate_directory_id", "directory_id", "id"}
        self.known = {
            "cluster_id": lambda: self.node.cluster_id,
            "topic_name": lambda: METADATA_TOPIC,
            "topic": lambda: METADATA_TOPIC,
            "name": lambda: self._text(NAMES.get(self.owner, (METADATA_TOPIC, PLANTED))),
            "min_supported_version": lambda: self.random.choice((0, 1, 1)),
            "max_supported_version": lambda: self.random.choice((1, 30, 30, 30)),
            "host": lambda: self._text(("node2", "localhost", "", PLANTED, LONG)),
            "partition": lambda: 0,
            "partition_index": lambda: 0,
            "topic_id": lambda: self.random.choice((self.topic_id, self.topic_id, Uuid(bytes(15) + b"\x01"))),
            "broker_epoch": self._broker_epoch,
            "previous_broker_epoch": self._broker_epoch,
            "epoch": self._epoch,
            "end_offset": self._offset,
            "fetch_offset": self._offset,
            "last_offset": self._offset,
            "position": lambda: self.random.choice((0, 0, 1, 100, 2**40)),
            "max_wait_ms": lambda: 0,
            "timeout_ms": lambda: self.random.choice((1, 100)),
            "request_data": self._forwarded,
            "request_principal": self._principal,
            "client_host_address": lambda: self.random.choice((b"\x7f\0\0\1", bytes(16))),
            "log_dirs": lambda: [self._directory()],
            "offline_log_dirs": lambda: [self._directory()] if self.random.random() < 0.2 else [],
            "want_shut_down": lambda: False,
            "features": self._features,
            **dict.fromkeys(epochs, self._epoch),
            **dict.fromkeys(ids, lambda: self.random.choice((1, 1, 2, 2, 3, -1))),
            **dict.fromkeys(directories, self._directory),
        }

    def _text(self, choices: Sequence[str]) -> str:
        text = self.random.choice(choices)
        # A frame has 100 MiB at most.
        return PLANTED if text is LONG and self.long_list else text

    def _list_size(self) -> int:
        return 1 if self.random.random() < 0.9 else super()._list_size()

    def _epoch(self) -> int:
        epoch = self.node.raft.leader_and_epoch.epoch
        hostile = (HOSTILE_EPOCH, HOSTILE_EPOCH - 1) if self.is_hostile else ()
        return self.random.choice((epoch, epoch, epoch, epoch + 1, epoch + 2, max(epoch - 1, 0), 0, *hostile))

    def _offset(self) -> int:
        end = self.node.raft.log_end_offset
        return self.random.choice((0, 1, end, end, end + 1, max(end - 1, 0), end // 2))

    def _broker_epoch(self) -> int:
        image = self.node.metadata.image if self.node.controller is None else self.node.controller.state.image
        epochs = [broker.epoch for broker in image.cluster.brokers.values()]
        return self.random.choice((*epochs, *epochs, *epochs, self.node.broker_epoch, -1))

    def _directory(self) -> Uuid:
        own = self.node.raft.local.directory_id
        others = [voter.directory_id for voter in self.node.raft.voters.voters.values()]
        return self.random.choice((own, *others, *self.node.logs.directory_ids().values(), Uuid(bytes(16))))

    def _features(self) -> list[Any]:
        feature = FEATURE_OF.get(self.owner)
        return write_features(SUPPORTED_FEATURES, feature) if feature else []

    def _forwarded(self) -> bytes:
        api_key = self.random.choice(sorted(FORWARDABLE & CATALOG.keys()))
        version = self.random.randrange(CATALOG[api_key].first_version, CATALOG[api_key].last_version + 1)
        body = self.message(request_type(api_key), version).encode(version)
        return header_of(api_key, version) + (body if self.random.random() < 0.8 else self.mutated(body))

    def _principal(self) -> bytes:
        principal = DefaultPrincipalData(type="User", name=self.random.choice(("alice", PLANTED)))
        data = bytes(2) + principal.encode(0)
        return data if self.random.random() < 0.9 else self.mutated(data)


def frames(
    random_values: QuorumValues, api_keys: tuple[ApiKey, ...], count: int
) -> Iterator[tuple[ApiKey, int, bytes]]:
    for _ in range(count):
        api_key = random_values.random.choice(api_keys)
        version = random_values.random.randrange(CATALOG[api_key].first_version, CATALOG[api_key].last_version + 1)
        body = random_values.message(request_type(api_key), version).encode(version)
        is_sound = random_values.random.random() < 0.8
        yield api_key, version, header_of(api_key, version) + (body if is_sound else random_values.mutated(body))


@contextmanager
def naming(api_key: ApiKey, version: int, frame: bytes) -> Iterator[None]:
    """Name the frame in every exception."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{api_key.name} v{version} {frame[:100_000].hex()}: {error!r}") from error


def send(place: Any, client: Client, api_key: ApiKey, version: int, frame: bytes) -> None:
    """Send a frame, let the node process it, and check its response."""
    with naming(api_key, version, frame):
        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        is_served = not client.is_closed and check_response(client, api_key, version)
        place.run(20)
        if not client.is_closed and not is_served:
            check_response(client, api_key, version)
        if not client.is_closed:
            place.node.closed(client.peer.connection, "the test has finished with it")


@pytest.mark.parametrize(
    "api_keys", [OF_THE_QUORUM, OF_BROKERS, OF_THE_QUORUM + OF_BROKERS], ids=["quorum", "brokers", "all"]
)
@pytest.mark.parametrize("is_hostile", [False, True], ids=["near-epochs", "last-epochs"])
@pytest.mark.parametrize("seed", range(2))
def test_quorum_of_one_survives_requests_of_nodes(
    seed: int, is_hostile: bool, api_keys: tuple[ApiKey, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")
    target = Target.new(seed)
    random_values = QuorumValues(seed, target.running.node, is_hostile=is_hostile)
    for api_key, version, frame in frames(random_values, api_keys, FRAMES_PER_VERSION * 10):
        caplog.clear()

        client = target.running.connect(LISTENERS[ListenerRole.CONTROLLER])
        send(target.running, client, api_key, version, frame)

        check_lines(caplog, (api_key.name, version, frame.hex()))
        if not target.is_intact and (target.running.stopped or random_values.random.random() < 0.2):
            target = Target.new(seed)
            random_values.node = target.running.node
            random_values.topic_id = target.topic_id


def new_cluster(seed: int, running: int) -> Cluster:
    cluster = Cluster(seed=seed, brokers=3)
    cluster.start(*range(1, running + 1))
    cluster.run(200)
    return cluster


@pytest.mark.parametrize("running", [1, 3], ids=["no-majority", "a-quorum"])
@pytest.mark.parametrize("is_hostile", [False, True], ids=["near-epochs", "last-epochs"])
@pytest.mark.parametrize("seed", range(2))
def test_voter_survives_random_requests_of_nodes(
    seed: int, is_hostile: bool, running: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")
    cluster = new_cluster(seed, running)
    random_values = QuorumValues(seed, cluster.nodes[1].node, is_hostile=is_hostile)
    for number, (api_key, version, frame) in enumerate(frames(random_values, OF_THE_QUORUM, FRAMES_PER_VERSION * 10)):
        caplog.clear()
        place = cluster.nodes[1]

        send(place, cluster.connect(1, "CONTROLLER"), api_key, version, frame)

        check_lines(caplog, (api_key.name, version, frame.hex()))
        if number % 100 == 99 or any(each.stopped for each in cluster.nodes.values()):
            cluster = new_cluster(seed + number, running)
            random_values.node = cluster.nodes[1].node


@pytest.mark.parametrize("api_key", OF_BOTH, ids=lambda key: key.name.lower())
def test_node_survives_long_lists_in_requests_of_nodes(api_key: ApiKey, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla")
    target = Target.new(int(api_key))
    random_values = QuorumValues(int(api_key), target.running.node)
    version = CATALOG[api_key].last_version
    for long_list in dict.fromkeys(list_fields(request_type(api_key), version)):
        caplog.clear()
        random_values.long_list, random_values.long_list_size = long_list, LONG_LIST_SIZE
        frame = header_of(api_key, version) + random_values.message(request_type(api_key), version).encode(version)

        client = target.running.connect(LISTENERS[ListenerRole.CONTROLLER])
        send(target.running, client, api_key, version, frame)

        check_lines(caplog, (api_key.name, long_list))
        if not target.is_intact:
            target = Target.new(int(api_key))
            random_values.node, random_values.topic_id = target.running.node, target.topic_id
