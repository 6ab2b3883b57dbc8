"""`GroupConsumer`: one member of a classic consumer group, with the range assignor.

`poll` does the work: it joins when it must, reads, and commits at an interval; a separate task sends heartbeats.
Rebalancing is eager: a member revokes all its partitions before it gets a new assignment.
Source: ConsumerCoordinator, AbstractCoordinator (Kafka 4.3).
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin_topics import TopicAdmin
from ottla.client.assignor import RANGE, assign_ranges
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, OffsetReset
from ottla.client.errors import ClientError, kafka_error, raise_for
from ottla.client.group_descriptions import CONSUMER_PROTOCOL_TYPE, parse_assignment
from ottla.client.group_reader import NO_GENERATION, GroupReader
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, TopicPartition
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_INTERVAL_S = 3.0

_PROTOCOL_VERSION = 1
_LOST_MEMBERSHIP = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_JOIN_AGAIN = _LOST_MEMBERSHIP | {ErrorCode.REBALANCE_IN_PROGRESS}


class GroupConsumer(GroupReader):
    """Reads its assigned partitions. Use with ``async with``: its end commits and leaves the group."""

    rejoin_codes = _JOIN_AGAIN
    member_id = ""
    generation: int = NO_GENERATION

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        group_id: str,
        topics: Sequence[str],
        offset_reset: OffsetReset = "latest",
        read_committed: bool = False,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        client_id: str = "ottla-consumer",
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Set up; the first `poll` joins.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            group_id: the group to join.
            topics: the subscription.
            offset_reset: the first position of a partition without a committed offset.
            read_committed: skip records of open and aborted transactions.
            session_timeout_ms: time without heartbeats after which the coordinator removes this member.
            client_id: the client id in brokers' logs and quotas.
            security: TLS and SASL settings of its own connections; None: neither.
        """
        super().__init__(
            bootstrap_servers,
            group_id=group_id,
            offset_reset=offset_reset,
            read_committed=read_committed,
            client_id=client_id,
            security=security,
        )
        self._topics = list(topics)
        self._session_timeout_ms = session_timeout_ms
        self._must_join = True
        self._heartbeats: asyncio.Task[None] | None = None
        self._failure: KafkaError | None = None
        """An error of the coordinator that ended the heartbeats."""

    async def poll(self, *, max_wait_ms: int = 500) -> list[ConsumedRecord]:
        """Return the next records; those of an earlier poll count as read and are committed every 5 s.

        Raises:
            KafkaError: an error that is not retriable, such as GROUP_AUTHORIZATION_FAILED.
            ClientError: brokers cannot be reached.
        """
        if self._failure is not None:
            raise self._failure
        if self._must_join:
            await self._commit_quietly()
            await self._join()
        await self._commit_at_interval()
        return await self.consumer.fetch(max_wait_ms=max_wait_ms)

    # --- membership ----------------------------------------------------------------------------------------------

    def _note(self, error: KafkaError) -> None:
        """Update the membership after an error of the coordinator."""
        if error.code in _LOST_MEMBERSHIP:
            self.generation = NO_GENERATION
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        if error.code in _JOIN_AGAIN:
            self._must_join = True

    async def _join(self) -> None:
        await self._stop_heartbeats()
        self._drop_positions()

        async def attempt() -> tuple[TopicPartition, ...]:
            try:
                return await self._sync(await self._send_join())
            except KafkaError as error:
                self._note(error)
                raise

        codes = (ErrorCode.MEMBER_ID_REQUIRED, *_JOIN_AGAIN)
        timeout_s = self.cluster.request_timeout_s + 2 * REBALANCE_TIMEOUT_MS / 1000
        assigned = await self.cluster.retry(attempt, also=codes, timeout_s=timeout_s, group_id=self.group_id)
        await self._start_positions(assigned)
        self._must_join = False
        self._heartbeats = asyncio.create_task(self._send_heartbeats())

    async def _send_join(self) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(topics=self._topics)
        metadata = _PROTOCOL_VERSION.to_bytes(2, "big") + subscription.encode(_PROTOCOL_VERSION)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=metadata)],
        )
        response = await self.cluster.send_to_coordinator(
            self.group_id,
            request,
            JoinGroupResponse,
            timeout_s=self.cluster.request_timeout_s + REBALANCE_TIMEOUT_MS / 1000,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            # A new member receives its id first, so that a lost response leaves no orphaned member behind (KIP-394).
            self.member_id = response.member_id
        raise_for(response.error_code, _explain_join(self.group_id, response.error_code))
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    async def _sync(self, joined: JoinGroupResponse) -> tuple[TopicPartition, ...]:
        is_leader = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if is_leader else [],
        )
        response = await self.cluster.send_to_coordinator(
            self.group_id,
            request,
            SyncGroupResponse,
            timeout_s=self.cluster.request_timeout_s + REBALANCE_TIMEOUT_MS / 1000,
        )
        raise_for(response.error_code)
        return parse_assignment(response.assignment)

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assign the partitions to the members, as the leader of the group."""
        subscriptions = {}
        for member in joined.members:
            newest = ConsumerProtocolSubscription.versions.last
            version = min(int.from_bytes(member.metadata[:2], "big", signed=True), newest)
            subscription, _ = ConsumerProtocolSubscription.decode_from(member.metadata, version, 2)
            subscriptions[member.member_id] = subscription.topics
        topics = sorted({topic for member_topics in subscriptions.values() for topic in member_topics})
        described = await TopicAdmin(self.cluster).describe_topics(topics)
        counts = {name: topic.partition_count for name, topic in described.items()}
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_encode_assignment(partitions))
            for member, partitions in assign_ranges(subscriptions, counts).items()
        ]

    async def _send_heartbeats(self) -> None:
        interval_s = min(HEARTBEAT_INTERVAL_S, self._session_timeout_ms / 3000)
        while not self._must_join:
            await asyncio.sleep(interval_s)
            request = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)
            try:
                response = await self.cluster.send_to_coordinator(self.group_id, request, HeartbeatResponse)
            except ClientError:
                self.cluster.invalidate_coordinator(self.group_id)
                continue
            except KafkaError as error:
                if not error.code.is_retriable:
                    self._failure = error
                    return
                continue
            if response.error_code:
                self._handle_heartbeat_error(kafka_error(response.error_code, f"group {self.group_id}"))

    def _handle_heartbeat_error(self, error: KafkaError) -> None:
        self._note(error)
        if self._must_join:
            return
        if error.code.is_retriable:
            self.cluster.invalidate_coordinator(self.group_id)
        else:
            self._failure, self._must_join = error, True

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
            self._heartbeats = None

    async def _leave(self) -> None:
        if not self.member_id:
            return
        identity = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        with contextlib.suppress(KafkaError):
            await self.cluster.send_to_coordinator(self.group_id, request, LeaveGroupResponse)
        self.member_id, self.generation = "", NO_GENERATION


def _encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic.items()
        ]
    )
    return _PROTOCOL_VERSION.to_bytes(2, "big") + assignment.encode(_PROTOCOL_VERSION)


def _explain_join(group_id: str, code: int) -> str:
    if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        return f"the members of group {group_id} share no assignor with this one, which has 'range'"
    return f"group {group_id}"
