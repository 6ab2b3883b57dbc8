"""A simulated member of a classic consumer group: joins, heartbeats, and commits offsets of its assigned partitions.

It reads no records: the run checks partition ownership, and that no committed offset is ever lost. Source:
ConsumerCoordinator of Apache Kafka's client, with the range assignor.
"""

from collections.abc import Sequence

from ottla.client.assignor import RANGE, assign_ranges
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.group_client import GroupClient
from ottla.simulator.clients.requests import offset_commit_request
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.types import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 2_000
"""Below the clients' request timeout: a JoinGroup gets its response before its connection is given up."""
HEARTBEAT_INTERVAL_MS = 500
_CONSUMER = "consumer"


class GroupMember(GroupClient):
    """See the module. Each round trip ends in the next: find, join, sync, fetch offsets, then heartbeat and commit."""

    rebalance_timeout_ms = REBALANCE_TIMEOUT_MS

    def __init__(self, host: ClientHost, invariants: GroupInvariants, name: str, group: str, topic: str) -> None:
        super().__init__(host, name, group, topic)
        self.generation = -1
        self._invariants = invariants
        self._member_id = ""

    def restart(self) -> None:
        """Start as another member; what this one has requested is dropped, and its session expires."""
        self._end_instance()
        self._member_id = ""
        self.start()

    def start(self) -> None:
        """Start: find the coordinator."""
        self.generation = -1
        self.owned = {}
        self._find()

    @property
    def is_settled(self) -> bool:
        """Whether it is a member of a generation of the group."""
        return self.generation >= 0

    def _on_coordinator(self) -> None:
        self._join()

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, JoinGroupResponse):
            self._on_joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._on_synced(response)
        elif isinstance(response, OffsetFetchResponse):
            self._on_offsets(response)
        elif isinstance(response, HeartbeatResponse):
            self._on_heartbeat(response)
        elif isinstance(response, OffsetCommitResponse):
            self._on_committed(response)
        else:
            self._run_later(self.start)

    def _on_error(self, code: int) -> None:
        """Join again after a rebalance, with its member id if that is valid; else find the coordinator again."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self.generation = -1
        self.owned = {}
        rejoins = code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
        self._run_later(self._join if rejoins else self.start)

    # --- joining

    def _join(self) -> None:
        protocol = JoinGroupRequestProtocol(name=RANGE, metadata=self._subscription())
        self._ask(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                member_id=self._member_id,
                protocol_type=_CONSUMER,
                protocols=[protocol],
            )
        )

    def _on_joined(self, response: JoinGroupResponse) -> None:
        if response.member_id:
            self._member_id = response.member_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._join()
            return
        if response.error_code != ErrorCode.NONE:
            self._on_error(response.error_code)
            return
        self.generation = response.generation_id
        assignments = []
        if response.leader == self._member_id:
            counts = {self.topic: self._host.partition_count(self.topic)}
            shares = assign_ranges({each.member_id: [self.topic] for each in response.members}, counts)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=self._encode(share))
                for member, share in shares.items()
            ]
        self._ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self._member_id,
                protocol_type=_CONSUMER,
                protocol_name=RANGE,
                assignments=assignments,
            )
        )

    def _on_synced(self, response: SyncGroupResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._on_error(response.error_code)
            return
        partitions = self._decode(response.assignment)
        for partition in partitions:
            self._on_owned(partition)
        self._on_assigned(partitions)

    def _on_owned(self, partition: int) -> None:
        self._invariants.on_owned(self.group, self.generation, partition, self._member_id)

    def _subscription(self) -> bytes:
        return self.topic.encode()

    def _encode(self, partitions: Sequence[TopicPartition]) -> bytes:
        """Return the assignment of one member, as the leader sends it."""
        return bytes(each.partition for each in partitions)

    def _decode(self, assignment: bytes) -> list[int]:
        return list(bytes(assignment))

    def _on_assigned(self, partitions: list[int]) -> None:
        """Fetch the offsets of the assigned partitions."""
        if not partitions:
            self._beat_later()
            return
        topic = OffsetFetchRequestTopics(name=self.topic, topic_id=self._topic_id(), partition_indexes=partitions)
        self._ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=[topic])]))

    def _on_offsets(self, response: OffsetFetchResponse) -> None:
        group = response.groups[0]
        code = group.error_code or next((each.error_code for each in group.topics[0].partitions if each.error_code), 0)
        if code:
            self._on_error(code)
            return
        for partition in group.topics[0].partitions:
            offset = partition.committed_offset
            self._invariants.on_fetched(self.group, partition.partition_index, offset)
            self.owned[partition.partition_index] = max(offset, 0) + 1
        self._beat_later()

    # --- taking part

    def _beat_later(self) -> None:
        self._run_later(self._beat, HEARTBEAT_INTERVAL_MS)

    def _beat(self) -> None:
        if self.generation < 0:
            return
        self._ask(HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self._member_id))

    def _on_heartbeat(self, response: HeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._on_error(response.error_code)
        elif self.owned:
            self._commit()
        else:
            self._beat_later()

    def _commit(self) -> None:
        self._ask(
            offset_commit_request(
                self.group,
                self.topic,
                self.owned,
                topic_id=self._topic_id(),
                epoch=self.generation,
                member_id=self._member_id,
            )
        )

    def _on_committed(self, response: OffsetCommitResponse) -> None:
        results = response.topics[0].partitions
        code = next((each.error_code for each in results if each.error_code), 0)
        if code:
            self._on_error(code)
            return
        for each in results:
            offset = self.owned[each.partition_index]
            self._invariants.on_committed(self.group, self.generation, each.partition_index, offset)
            self.owned[each.partition_index] = offset + 1
        self._beat_later()
