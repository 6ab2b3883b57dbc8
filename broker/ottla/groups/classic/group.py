"""`ClassicGroup`: members, generation, leader and protocol of one group, and their invariants.

It has no timers and writes no records: `rebalance` decides on transitions. Members keep the order in which they joined,
so that the same requests always elect the same leader.

Source: ClassicGroup of Kafka; KIP-62, KIP-134, KIP-345, KIP-394.
"""

from collections import Counter
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.state import TRANSITIONS, ClassicGroupState
from ottla.groups.classic.subscription import SubscribedTopics
from ottla.purgatory import Delayed
from ottla.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NO_MEMBER_ID: Final = ""


def join_error_response(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(protocol_name=None, member_id=member_id, error_code=int(error))


class ClassicGroup:
    """One group. ``awaiting_join_count`` members wait for the response to a JoinGroup."""

    __slots__ = (
        "_protocol_support",
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "leader_id",
        "members",
        "must_rebalance",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscriptions",
    )

    def __init__(self, group_id: str) -> None:
        """Create an empty group of generation 0 without members."""
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms: int | None = None
        """Wall clock; None if the log has no timestamp."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by group instance id."""
        self.pending_join: dict[str, None] = {}
        """Ids that were sent with MEMBER_ID_REQUIRED and have not joined yet."""
        self.pending_sync: dict[str, None] = {}
        """Members of the current generation that have not sent SyncGroup yet."""
        self.awaiting_join_count = 0
        self.must_rebalance = False
        """Whether it was loaded while a consumer group became this group: its members must join again."""
        self.new_member_added = False
        """Whether a member joined during the initial rebalance delay: the delay starts again."""
        self.subscriptions = SubscribedTopics(None)
        """Of the members of this generation."""
        self._protocol_support: Counter[str] = Counter()

    # State

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return (self.state, ClassicGroupState.PREPARING_REBALANCE) in TRANSITIONS

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def transition_to(self, state: ClassicGroupState, *, wall_ms: int) -> None:
        assert (self.state, state) in TRANSITIONS, f"group {self.group_id}: {self.state} cannot become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms

    def start_next_generation(self, *, wall_ms: int) -> None:
        """Increment the generation and select its protocol; Empty without members, else CompletingRebalance."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.keep_subscriptions()
        state = ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY
        self.transition_to(state, wall_ms=wall_ms)
        self.pending_sync.clear()

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_join

    def add(self, member: ClassicMember, awaiting_join: Delayed[JoinGroupResponse] | None = None) -> None:
        """Add ``member``; the first one determines the protocol type and is the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, f"group {self.group_id}: another protocol type"
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, f"group {self.group_id}: instance is taken"
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_support(member, 1)
        self._await_join(member, awaiting_join)
        self.pending_join.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member, if it exists.

        Its waiting requests complete with UNKNOWN_MEMBER_ID: if it is alive, it joins again.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self.complete_join_future(member, join_error_response(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
            self.complete_sync_future(member, SyncGroupResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)))
            self._count_support(member, -1)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: list[JoinGroupRequestProtocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting_join: Delayed[JoinGroupResponse] | None,
    ) -> None:
        """Update a member from its new JoinGroup.

        Its earlier JoinGroup, if it still waits, completes: the client has given up on it.
        """
        self.complete_join_future(member, join_error_response(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._await_join(member, awaiting_join)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new id; requests that wait under the old id are fenced."""
        old = self.members.pop(old_id)
        self.complete_join_future(old, join_error_response(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self.complete_sync_future(old, SyncGroupResponse(error_code=int(ErrorCode.FENCED_INSTANCE_ID)))
        new = ClassicMember(
            member_id=new_id,
            group_instance_id=instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Keep a leader that has joined, or elect one; return whether a member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Return the member that a request names.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID: there is no such member, or no such instance; FENCED_INSTANCE_ID: the
                instance has another member id now.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def complete_join_future(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Complete the JoinGroup that ``member`` waits for, if any."""
        waiting = member.awaiting_join
        if waiting is not None:
            self._await_join(member, None)
            waiting.complete(response)

    def complete_sync_future(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Complete the SyncGroup that ``member`` waits for; return whether there was one."""
        waiting = member.awaiting_sync
        if waiting is None:
            return False
        member.awaiting_sync = None
        waiting.complete(response)
        return True

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Return every member with its metadata for the selected protocol, for the leader's assignment."""
        assert self.protocol_name is not None, f"group {self.group_id} has no protocol in state {self.state}"
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # Protocols

    def supports(self, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """Return whether a member with ``protocols`` may join: one of them must have every member's support."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._protocol_support[protocol.name] == len(self.members) for protocol in protocols
        )

    @property
    def has_common_protocol(self) -> bool:
        return len(self.members) in self._protocol_support.values()

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that every member supports.

        Among equals, the protocol that received its first vote first.
        """
        candidates = {name for name, count in self._protocol_support.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def keep_subscriptions(self) -> None:
        """Keep the metadata of the members as it is now, for `is_subscribed_to`: they may join again with another."""
        name = self.protocol_name
        if not self.uses_consumer_protocol or (self.members and name is None):
            self.subscriptions = SubscribedTopics(None)
        else:
            self.subscriptions = SubscribedTopics([member.metadata(name or "") for member in self.members.values()])

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members read ``topic``; consumers whose topics are not known may read any."""
        topics = self.subscriptions.topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    def _count_support(self, member: ClassicMember, change: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._protocol_support[name] += change
            if not self._protocol_support[name]:
                del self._protocol_support[name]

    def _await_join(self, member: ClassicMember, response: Delayed[JoinGroupResponse] | None) -> None:
        self.awaiting_join_count += (response is not None) - (member.awaiting_join is not None)
        member.awaiting_join = response
