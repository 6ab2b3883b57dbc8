"""`GroupReader`: what members of classic groups and of the consumer protocol share: positions and commits.

Source: ConsumerCoordinator, CommitRequestManager (Kafka 4.3).
"""

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from ottla.client.admin_groups import OFFSET_COMMIT_VERSION_MAX, GroupAdmin
from ottla.client.admin_topics import EARLIEST, LATEST, TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.cluster_user import ClusterUser
from ottla.client.consumer import ConsumedRecord, Consumer, OffsetReset
from ottla.client.errors import ClientError, kafka_error
from ottla.client.results import CommittedOffset
from ottla.client.transaction_requests import GroupMetadata
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, Offset, TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

COMMIT_INTERVAL_S = 5.0
NO_GENERATION: Final = -1


class GroupReader(ClusterUser):
    """Reads assigned partitions and commits its positions; a subclass is the member that gets them assigned.

    Attributes:
        rejoin_codes: errors of the coordinator after which the member joins again.
        stale_codes: errors of a commit that succeeds once a heartbeat has brought the next epoch.
    """

    rejoin_codes: ClassVar[frozenset[ErrorCode]]
    stale_codes: ClassVar[frozenset[ErrorCode]] = frozenset()

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        group_id: str,
        offset_reset: OffsetReset,
        read_committed: bool,
        client_id: str,
        security: "ClientSecurity | None",
    ) -> None:
        """Set up; see the subclasses for the arguments."""
        super().__init__(bootstrap_servers, client_id=client_id, security=security)
        self.group_id = group_id
        self.consumer = Consumer(self.cluster, offset_reset=offset_reset, read_committed=read_committed)
        self._offset_reset = offset_reset
        self._committed: dict[TopicPartition, Offset] = {}
        self._committed_at_s = 0.0

    @property
    @abstractmethod
    def member_id(self) -> str:
        """The id that the coordinator knows this member by; empty before a classic group has given it one."""

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation, or the member's epoch; `NO_GENERATION` outside of the group."""

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are assigned to this member now, sorted."""
        return sorted(self.consumer.positions)

    @property
    def group_metadata(self) -> GroupMetadata:
        """What a transactional producer sends with the offsets of this member."""
        return GroupMetadata(self.group_id, self.generation, self.member_id)

    @abstractmethod
    async def poll(self, *, max_wait_ms: int = 500) -> list[ConsumedRecord]:
        """Return the next records; those of an earlier poll count as read and are committed every 5 s."""

    async def close(self) -> None:
        """Commit, leave the group and close."""
        try:
            with contextlib.suppress(ClientError):
                try:
                    # Heartbeats continue: the commit may need the epoch that the next one brings.
                    await self._commit_quietly()
                finally:
                    await self._stop_heartbeats()
                    await self._leave()
        finally:
            await super().close()

    @abstractmethod
    async def _stop_heartbeats(self) -> None:
        """Send no more heartbeats."""

    @abstractmethod
    async def _leave(self) -> None:
        """Leave the group, if this is a member; the coordinator's errors do not matter any more."""

    @abstractmethod
    def _note(self, error: KafkaError) -> None:
        """Update the membership after an error of the coordinator."""

    def rewind(self, records: Iterable[ConsumedRecord]) -> None:
        """Reset the positions to ``records``, which the last `poll` returned: they count as not read."""
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if partition in self.consumer.positions:
                self.consumer.positions[partition] = min(self.consumer.positions[partition], record.offset)

    async def commit(self) -> None:
        """Commit the positions after the last `poll`.

        Raises:
            KafkaError: one of ``rejoin_codes``: the next `poll` joins again; or an error that is not retriable.
        """
        self._committed_at_s = asyncio.get_running_loop().time()
        changed = {
            partition: offset
            for partition, offset in self.consumer.positions.items()
            if self._committed.get(partition) != offset
        }
        if not changed or self.generation == NO_GENERATION:
            return
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for partition, offset in changed.items():
            topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition, committed_offset=offset, committed_metadata=""
                )
            )

        async def attempt() -> None:
            # A heartbeat may have changed the epoch since the last attempt.
            request = OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                topics=list(topics.values()),
            )
            response = await self.cluster.send_to_coordinator(
                self.group_id, request, OffsetCommitResponse, highest=OFFSET_COMMIT_VERSION_MAX
            )
            errors = [
                kafka_error(entry.error_code, f"partition {result.name}-{entry.partition_index}")
                for result in response.topics
                for entry in result.partitions
                if entry.error_code
            ]
            if errors:
                # A broker rejects deleted topics itself; what the coordinator returns for the others decides.
                raise min(errors, key=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        try:
            await self.cluster.retry(attempt, also=self.stale_codes, group_id=self.group_id)
        except KafkaError as error:
            self._note(error)
            raise
        self._committed.update(changed)

    async def _commit_quietly(self) -> None:
        """Commit; after a rebalance the next owner reads from the last commit, and of a deleted topic none does.

        As in Java's clients, a member revokes its partitions although their topic is gone.
        """
        try:
            await self.commit()
        except KafkaError as error:
            if error.code not in self.rejoin_codes and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise

    async def _commit_at_interval(self) -> None:
        if asyncio.get_running_loop().time() - self._committed_at_s >= COMMIT_INTERVAL_S:
            await self._commit_quietly()

    def _drop_positions(self) -> None:
        """Read nothing: the partitions belong to other members."""
        self.consumer.assign({})
        self._committed = {}

    async def _start_positions(self, assigned: Sequence[TopicPartition]) -> None:
        """Read ``assigned``, too, from their committed offsets or where ``offset_reset`` says."""
        if not assigned:
            return
        committed = await self._committed_offsets(assigned)
        positions = {partition: offset.offset for partition, offset in committed.items()}
        fresh = [partition for partition in assigned if partition not in positions]
        if fresh and self._offset_reset == "none":
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"group {self.group_id} has no committed offset for {fresh[0]}"
            )
        timestamp = EARLIEST if self._offset_reset == "earliest" else LATEST
        listed = await TopicAdmin(self.cluster).list_offsets(dict.fromkeys(fresh, timestamp)) if fresh else {}
        positions.update({partition: offset.offset for partition, offset in listed.items()})
        self.consumer.assign(self.consumer.positions | positions)
        self._committed |= {partition: offset.offset for partition, offset in committed.items()}
        self._committed_at_s = asyncio.get_running_loop().time()

    async def _committed_offsets(self, assigned: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        # The former owner's transaction may still be open: its offsets decide where this member starts (KIP-447).
        return await GroupAdmin(self.cluster).group_offsets(self.group_id, assigned, require_stable=True)
