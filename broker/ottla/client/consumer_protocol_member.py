"""`ConsumerProtocolMember`: one member of a group of the consumer protocol (KIP-848).

`poll` joins, revokes and starts partitions, reads, and commits at an interval; a separate task sends heartbeats.
Rebalancing is incremental: a member keeps reading what stays assigned to it.
Source: AsyncKafkaConsumer, ConsumerMembershipManager, ConsumerHeartbeatRequestManager (Kafka 4.3).
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, OffsetReset
from ottla.client.consumer_membership import ConsumerMembership
from ottla.client.group_reader import NO_GENERATION, GroupReader
from ottla.client.heartbeats import Heartbeats
from ottla.client.membership import FENCED_CODES, Partitions
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, TopicPartition, Uuid, format_uuid
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

REBALANCE_TIMEOUT_MS = 300_000
"""As of a Java client, whose value is ``max.poll.interval.ms``."""


class ConsumerProtocolMember(GroupReader):
    """Reads its assigned partitions. Use with ``async with``: its end commits and leaves the group."""

    rejoin_codes = FENCED_CODES
    stale_codes = frozenset({ErrorCode.STALE_MEMBER_EPOCH})

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        group_id: str,
        topics: Sequence[str] = (),
        topic_regex: str | None = None,
        offset_reset: OffsetReset = "latest",
        read_committed: bool = False,
        server_assignor: str | None = None,
        instance_id: str | None = None,
        client_id: str = "ottla-consumer",
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Set up; the first `poll` joins.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            group_id: the group to join.
            topics: the subscription.
            topic_regex: an expression of RE2; all topics whose whole names match are subscribed, too.
            offset_reset: the first position of a partition without a committed offset.
            read_committed: skip records of open and aborted transactions.
            server_assignor: ``uniform``, ``range`` or None for the coordinator's choice.
            instance_id: the ``group.instance.id`` of a static member: after a restart within the session time-out it
                gets the same partitions; None for a dynamic member.
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
        self._membership = ConsumerMembership(
            group_id=group_id,
            member_id=format_uuid(Uuid(uuid.uuid4().bytes)),
            topics=topics,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            server_assignor=server_assignor,
            instance_id=instance_id,
            topic_regex=topic_regex,
        )
        self._sender = Heartbeats(self.cluster, group_id, self._membership, ConsumerGroupHeartbeatResponse)

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def generation(self) -> int:
        return self._membership.epoch if self._membership.is_member else NO_GENERATION

    async def poll(self, *, max_wait_ms: int = 500) -> list[ConsumedRecord]:
        """Return the next records; those of an earlier poll count as read and are committed every 5 s.

        Raises:
            KafkaError: an error that is not retriable, such as GROUP_AUTHORIZATION_FAILED.
            ClientError: brokers cannot be reached, or do not serve the consumer protocol.
        """
        if self._sender.failure is not None:
            raise self._sender.failure
        if not self._membership.is_member:
            await self._join()
        if self._membership.must_reconcile:
            await self._reconcile()
        await self._commit_at_interval()
        return await self.consumer.fetch(max_wait_ms=max_wait_ms)

    # --- membership ----------------------------------------------------------------------------------------------

    def _note(self, error: KafkaError) -> None:
        if error.code in FENCED_CODES:
            self._membership.on_fenced()

    async def _join(self) -> None:
        await self._stop_heartbeats()
        self._drop_positions()
        await self._sender.join()

    async def _stop_heartbeats(self) -> None:
        await self._sender.stop()

    async def _reconcile(self) -> None:
        """Revoke what is no longer assigned, start what is new, and let the next heartbeat report that."""
        assigned = self._membership.assigned
        partitions = await self.cluster.retry(lambda: self._named(assigned))
        revoked = self.consumer.positions.keys() - partitions.keys()
        if revoked:
            await self._commit_quietly()
            if not self._membership.is_member:
                return
            self.consumer.assign(
                {partition: offset for partition, offset in self.consumer.positions.items() if partition in partitions}
            )
            for partition in revoked:
                self._committed.pop(partition, None)
        await self._start_positions(sorted(partitions.keys() - self.consumer.positions.keys()))
        owned: dict[Uuid, list[int]] = {}
        for partition, topic_id in partitions.items():
            owned.setdefault(topic_id, []).append(partition.partition)
        self._membership.own(owned)
        if self._membership.must_report:
            self._sender.send_soon()

    async def _named(self, assigned: Partitions) -> dict[TopicPartition, Uuid]:
        """Return the assigned partitions by name, with the ids of their topics.

        A topic that is created or deleted at the moment may be missing: the next `poll` searches for it again.
        """
        names = await self.cluster.topic_names(assigned)
        return {
            TopicPartition(names[topic_id], number): topic_id
            for topic_id, numbers in assigned.items()
            if topic_id in names
            for number in numbers
        }

    async def _leave(self) -> None:
        await self._sender.leave()
