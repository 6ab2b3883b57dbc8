"""A group in any order of joins, syncs, heartbeats, leaves, time-outs, commits, slow and lost writes, and restarts.

Invariants: members agree on generation, leader and protocol; each receives what the leader of its generation
assigned to it; every request receives a response; committed offsets and stored assignments survive a restart.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from ottla.errors import ErrorCode
from ottla.groups.classic.state import ClassicGroupState
from ottla.wire.messages.heartbeat import HeartbeatRequest

SESSION_MS = 10_000
REBALANCE_MS = 20_000
ALL_TIMEOUTS_MS = 400_000
JOINED = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE)


@dataclass
class Generation:
    """The responses of members about one generation."""

    leader: str
    protocol: str
    members: set[str]
    assigned: dict[str, bytes] | None = None


class GroupModel(RuleBasedStateMachine):
    """One group; ``new_node`` is set by the test."""

    new_node: Any = None
    members = Bundle("members")

    @initialize()
    def start(self) -> None:
        self.node = type(self).new_node()
        self.waiting: list[Any] = []
        self.generations: dict[int, Generation] = {}
        self.generation_of: dict[str, int] = {}
        self.stored_generation = 0
        self.committed: dict[tuple[str, int], int] = {}
        self.uncommitted: list[tuple[int, int]] = []
        self.next_offset = 1

    def _watch(self, response: Any, note: Any) -> None:
        self.waiting.append(response)
        response.on_complete(note)

    def _joined(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            return
        number = response.generation_id
        generation = self.generations.setdefault(number, Generation(response.leader, response.protocol_name, set()))
        assert response.protocol_name == generation.protocol
        if response.member_id == response.leader:
            generation.members = {member.member_id for member in response.members}
            assert response.member_id in generation.members
        self.generation_of[response.member_id] = number

    # Clients

    @rule(target=members, assignors=st.sampled_from(["range", "range,sticky", "sticky"]))
    def join(self, assignors: str) -> Any:
        protocols = {name: ["t"] for name in assignors.split(",")}
        response = self.node.join(protocols=protocols, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS)
        self._watch(response, self._joined)
        member_id = self._newest_member_id()
        return multiple() if member_id is None else (member_id, assignors)

    @rule(instance=st.sampled_from(["i1", "i2"]))
    def join_as_static_member(self, instance: str) -> None:
        protocols = {"range": ["t"], "sticky": ["t"]}
        response = self.node.join(
            instance=instance, protocols=protocols, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS
        )
        self._watch(response, lambda _: None)

    @rule(member=members)
    def rejoin(self, member: tuple[str, str]) -> None:
        member_id, assignors = member
        protocols = {name: ["t"] for name in assignors.split(",")}
        response = self.node.join(
            member_id=member_id,
            protocols=protocols,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self._watch(response, self._joined)

    @rule(member=members, salt=st.integers(0, 255))
    def sync(self, member: tuple[str, str], salt: int) -> None:
        member_id = member[0]
        number = self.generation_of.get(member_id, 0)
        generation = self.generations.get(number)
        group = self._group()
        is_leader = generation is not None and generation.leader == member_id
        assign = {to: bytes([salt]) + to.encode() for to in generation.members} if is_leader and generation else {}
        if (
            group is not None
            and group.state is ClassicGroupState.COMPLETING_REBALANCE
            and generation is not None
            and group.leader_id == member_id
            and number == group.generation_id
            and not self.node.log.is_held
        ):
            generation.assigned = {to: assign.get(to, b"") for to in group.members}

        def note(response: Any) -> None:
            if response.error_code == ErrorCode.NONE:
                known = self.generations[number].assigned
                assert known is None or response.assignment == known[member_id]
                self.stored_generation = max(self.stored_generation, number)

        self._watch(self.node.sync(member_id, number, assign), note)

    @rule(member=members)
    def heartbeat(self, member: tuple[str, str]) -> None:
        self.node.call(self._heartbeat_request(member[0]), 4)

    @rule(member=consumes(members))
    def leave(self, member: tuple[str, str]) -> None:
        self._watch(self.node.leave(member[0]), lambda _: None)

    @rule(member=members, partition=st.integers(0, 2))
    def commit(self, member: tuple[str, str], partition: int) -> None:
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        response = self.node.commit(
            partition=partition,
            offset=offset,
            member_id=member[0],
            generation=self.generation_of.get(member[0], 0),
        )

        def note(response: Any) -> None:
            if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.committed["t", partition] = offset

        self._watch(response, note)

    @rule(salt=st.integers(0, 255), leader_syncs=st.booleans())
    def all_members_join_and_sync(self, salt: int, leader_syncs: bool) -> None:
        """Rebalance as well-behaved members do; the leader comes last."""
        group = self._group()
        if group is None or self.node.log.is_held:
            return
        for member in list(group.members.values()):
            if not member.is_static:
                self.rejoin((member.member_id, ",".join(protocol.name for protocol in member.protocols)))
        self.node.advance(REBALANCE_MS if group.static_members else 501)
        for member_id in sorted(group.members, key=lambda member_id: member_id == group.leader_id):
            if leader_syncs or member_id != group.leader_id:
                self.sync((member_id, ""), salt)

    # Time, log and failures

    @rule(milliseconds=st.sampled_from([1, 499, 501, SESSION_MS - 1, SESSION_MS, REBALANCE_MS, 3 * REBALANCE_MS]))
    def advance_time(self, milliseconds: int) -> None:
        if not self.node.log.is_held:
            self.node.advance(milliseconds)

    @rule()
    def pause_commits(self) -> None:
        self.node.log.is_held = True

    @rule()
    def resume_commits(self) -> None:
        self.node.log.is_held = False
        self.node.log.commit()

    @rule()
    def restart(self) -> None:
        self.resume_commits()
        before = self._group()
        for partition in range(self.node.PARTITIONS):
            self.node.groups.on_resigned(partition)
        self.node.restart()
        after = self._group()
        if before is not None and before.state_timestamp_ms is not None and after is not None:
            assert after.generation_id <= before.generation_id
        self.stored_generation = 0
        self.generations = {}
        self.generation_of = {}

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        self.resume_commits()
        self.node.advance(ALL_TIMEOUTS_MS)
        assert all(response.is_complete for response in self.waiting), "a request never received its response"
        group = self._group()
        assert group is None or not (group.members or group.pending_join or group.pending_sync)

    # Invariants

    @invariant()
    def group_is_consistent(self) -> None:
        group = self._group() if hasattr(self, "node") else None
        if group is None:
            return
        members = group.members.values()
        assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in members)
        assert (group.leader_id in group.members) == bool(group.members)
        assert not group.members.keys() & group.pending_join.keys()
        assert group.pending_sync.keys() <= group.members.keys()
        assert {member.group_instance_id: id_ for id_, member in group.members.items() if member.is_static} == (
            group.static_members
        )
        if group.state in JOINED:
            assert group.members
            assert all(group.protocol_name in {p.name for p in member.protocols} for member in members)
            if group.state is ClassicGroupState.STABLE:
                assert not any(member.awaiting_sync for member in members)
        if group.state is ClassicGroupState.EMPTY:
            assert not group.members
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
            assert not any(member.awaiting_sync for member in members)

    @invariant()
    def committed_offsets_are_stored(self) -> None:
        if not hasattr(self, "node") or self.node.log.is_held:
            return
        found = self.node.offsets()
        assert {key: found.get(key) for key in self.committed} == self.committed

    def _group(self) -> Any:
        shard = self.node.groups._runtime._contexts[self.node.groups.partition_for("g")].shard
        return shard.rebalancer.groups.get("g")

    def _newest_member_id(self) -> str | None:
        group = self._group()
        if group is None or not group.members:
            return None
        newest = next(reversed(group.members.values()))
        return newest.member_id if newest.awaiting_join is self.waiting[-1] or newest.is_new else None

    def _heartbeat_request(self, member_id: str) -> Any:
        return HeartbeatRequest(group_id="g", generation_id=self.generation_of.get(member_id, 0), member_id=member_id)


@pytest.mark.parametrize("steps", [50])
def test_group_is_consistent_after_any_order_of_events(new_group_node: Any, steps: int) -> None:
    class Model(GroupModel):
        new_node = staticmethod(new_group_node)

    case = Model.TestCase
    case.settings = settings(max_examples=60, stateful_step_count=steps, deadline=None)
    case("runTest").runTest()
    assert Model.new_node is not None
