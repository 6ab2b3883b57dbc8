"""`DirectoryAssignments`: reports the log directory of a replica to the controller, if the metadata has another one.

The controller must know it to determine which replicas a failed directory affects. One request is in flight at a time,
with all assignments that are due. Source: AssignmentsManager of Apache Kafka 4.3; KIP-858.
"""

import logging
from itertools import islice

from ottla.errors import ErrorCode
from ottla.ports import Clock
from ottla.replication.peer_brokers import PeerBrokers
from ottla.types import NEVER_MS, NodeId, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

logger = logging.getLogger(__name__)

ASSIGNMENTS_PER_REQUEST_MAX = 2_250
_RETRY_MS = 500
_FINAL = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

_Key = tuple[Uuid, int]


class DirectoryAssignments:
    """See the module."""

    def __init__(self, *, node_id: NodeId, peer_brokers: PeerBrokers, clock: Clock) -> None:
        self._node_id = node_id
        self._peer_brokers = peer_brokers
        self._clock = clock
        self._wanted: dict[_Key, Uuid] = {}
        self._is_in_flight = False
        self._retry_at_ms = 0
        self.due_ms = NEVER_MS
        """When `tick` sends a request."""

    def __len__(self) -> int:
        return len(self._wanted)

    def assign(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> None:
        """Report ``directory_id`` for this node's replica, until the controller has acknowledged it."""
        self._wanted[topic_id, partition] = directory_id
        self._plan()

    def is_pending(self, topic_id: Uuid, partition: int) -> bool:
        """Return whether the controller has yet to acknowledge a report about the replica."""
        return (topic_id, partition) in self._wanted

    def cancel(self, topic_id: Uuid, partition: int) -> None:
        """Drop the report: the controller knows it, or the replica is removed."""
        self._wanted.pop((topic_id, partition), None)
        self._plan()

    def tick(self, now_ms: int) -> None:
        if now_ms >= self.due_ms:
            self._send(dict(islice(self._wanted.items(), ASSIGNMENTS_PER_REQUEST_MAX)))

    def _plan(self) -> None:
        self.due_ms = self._retry_at_ms if self._wanted and not self._is_in_flight else NEVER_MS

    def _send(self, reported: dict[_Key, Uuid]) -> None:
        self._is_in_flight = True
        self._plan()
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, partition), directory_id in reported.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(partition)
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._peer_brokers.broker_epoch(),
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=partition)
                                for partition in partitions
                            ],
                        )
                        for topic_id, partitions in topics.items()
                    ],
                )
                for directory_id, topics in by_directory.items()
            ],
        )
        pending = self._peer_brokers.send_to_controller(request)
        pending.on_complete(lambda response: self._on_response(reported, response))

    def _on_response(self, reported: dict[_Key, Uuid], response: Message) -> None:
        self._is_in_flight = False
        codes: dict[_Key, ErrorCode] = {}
        if isinstance(response, AssignReplicasToDirsResponse) and response.error_code == ErrorCode.NONE:
            codes = {
                (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
                for directory in response.directories
                for topic in directory.topics
                for partition in topic.partitions
            }
        elif (
            isinstance(response, AssignReplicasToDirsResponse) and response.error_code == ErrorCode.UNSUPPORTED_VERSION
        ):
            # The finalized metadata.version has no directories: the controller cannot record any.
            codes = dict.fromkeys(reported, ErrorCode.NONE)
        for key, directory_id in reported.items():
            if codes.get(key) in _FINAL and self._wanted.get(key) == directory_id:
                del self._wanted[key]
        if any(key in self._wanted for key in reported):
            logger.debug("the controller has not recorded the directories of %d replicas yet", len(self._wanted))
            self._retry_at_ms = self._clock.monotonic_ms() + _RETRY_MS
        self._plan()
