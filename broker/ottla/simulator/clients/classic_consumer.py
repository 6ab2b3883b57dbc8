"""A simulated classic consumer whose group may be converted: its subscription and assignments are those of Kafka's.

It revokes everything before it joins (eager); a response with an error, or none, makes it give up all it has.

Source: ConsumerCoordinator of Apache Kafka's client.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.group_member import GroupMember
from ottla.simulator.invariants.consumer_group_invariants import ConsumerGroupInvariants
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.types import TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_VERSION: Final = Struct(">h")
_PROTOCOL_VERSION: Final = 3


class ClassicConsumer(GroupMember):
    """See the module."""

    rebalance_timeout_ms = 30_000
    """Above the session timeout: a member is removed because of its session, which the invariants know."""

    def __init__(
        self,
        host: ClientHost,
        invariants: ConsumerGroupInvariants,
        offsets: GroupInvariants,
        name: str,
        group: str,
        topic: str,
    ) -> None:
        super().__init__(host, offsets, name, group, topic)
        self._ownership = invariants

    def start(self) -> None:
        self._release_all()
        super().start()

    def stop(self, *, leaves: bool) -> None:
        """End the process; if it does not leave, the coordinator learns that by the end of its session."""
        if leaves and self._coordinator is not None and self._member_id:
            self._release_all()
            identity = MemberIdentity(member_id=self._member_id)
            request = LeaveGroupRequest(group_id=self.group, members=[identity])
            self._send(self._coordinator, request, self.name, lambda _: None)
        self._end_instance()
        self._member_id, self.generation, self.owned = "", -1, {}

    def _ask(self, request: Message) -> None:
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            self._ownership.on_heartbeat_sent(self.group, self._member_id, set())
        elif isinstance(request, HeartbeatRequest):
            self._ownership.on_heartbeat_sent(self.group, self._member_id, None)
        super()._ask(request)

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, HeartbeatResponse | SyncGroupResponse) and not response.error_code:
            self._ownership.on_heartbeat_succeeded(self.group, self._member_id)
        super()._on_response(response)

    def _on_error(self, code: int) -> None:
        self._release_all()
        super()._on_error(code)

    def _release_all(self) -> None:
        self._ownership.on_released(self.group, self._member_id)

    def _on_owned(self, partition: int) -> None:
        self._ownership.on_assigned(self.group, self.generation, partition, self._member_id)

    def _subscription(self) -> bytes:
        subscription = ConsumerProtocolSubscription(topics=[self.topic], generation_id=self.generation)
        return _VERSION.pack(_PROTOCOL_VERSION) + subscription.encode(_PROTOCOL_VERSION)

    def _encode(self, partitions: Sequence[TopicPartition]) -> bytes:
        numbers = [each.partition for each in partitions]
        assigned = [ConsumerProtocolAssignmentTopicPartition(topic=self.topic, partitions=numbers)]
        assignment = ConsumerProtocolAssignment(assigned_partitions=assigned)
        return _VERSION.pack(_PROTOCOL_VERSION) + assignment.encode(_PROTOCOL_VERSION)

    def _decode(self, assignment: bytes) -> list[int]:
        decoded, _ = ConsumerProtocolAssignment.decode_from(assignment, _PROTOCOL_VERSION, _VERSION.size)
        return [number for topic in decoded.assigned_partitions for number in topic.partitions]
