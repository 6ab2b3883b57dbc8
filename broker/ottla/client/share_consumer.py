"""`ShareConsumer`: one member of a share group (KIP-932).

Members of a share group share the records, not the partitions, of their topics: each record is acquired by one member
at a time, which has to acknowledge it within the leader's time for that. `poll` accepts the records of the
call before, except for those that `acknowledge` has released or rejected.

Source: ShareConsumerImpl, ShareConsumeRequestManager (Kafka 4.3).
"""

import asyncio
import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.acknowledgements import Acknowledgements
from ottla.client.cluster import BACKOFF_FIRST_S, Cluster
from ottla.client.cluster_user import ClusterUser
from ottla.client.consumer import FETCH_SIZE_BYTES_MAX, ConsumedRecord, consumed_records
from ottla.client.errors import BrokerUnreachableError, ClientError, ConnectionLostError, RequestTimeoutError, raise_for
from ottla.client.failing_leaders import FailingLeaders
from ottla.client.heartbeats import Heartbeats
from ottla.client.share_membership import ShareMembership
from ottla.client.share_session import ShareSession, acknowledge_topics
from ottla.errors import ErrorCode, KafkaError
from ottla.types import Endpoint, NodeId, TopicIdPartition, TopicPartition, Uuid, format_uuid
from ottla.wire.acknowledge_type import AcknowledgeType
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import AcknowledgementBatch, PartitionData, ShareFetchRequest, ShareFetchResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from ottla.wire.records import iterate_batches
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

RECORDS_MAX: Final = 500
_LOST_SESSION: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
_SEARCH_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_NO_RESPONSE: Final = (BrokerUnreachableError, ConnectionLostError, RequestTimeoutError)
_Batches = dict[TopicIdPartition, list[AcknowledgementBatch]]


class ShareConsumer(ClusterUser):
    """Reads records that no other member of the group has acquired. Use with ``async with``: its end leaves the group.

    Attributes:
        group_id: the group.
        rejected: why leaders rejected acknowledgements of the last `poll`, or may not have got them, by partition; the
            records may be delivered again.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        group_id: str,
        topics: Sequence[str],
        records_max: int = RECORDS_MAX,
        client_id: str = "ottla-consumer",
        security: "ClientSecurity | None" = None,
    ) -> None:
        """Set up; the first `poll` joins.

        Args:
            bootstrap_servers: addresses (see `Cluster`), or a cluster that its owner closes.
            group_id: the group to join; its configuration ``share.auto.offset.reset`` sets its first offsets.
            topics: the subscription.
            records_max: of one leader's response; more if the last batch has more.
            client_id: the client id in brokers' logs and quotas.
            security: TLS and SASL settings of its own connections; None: neither.
        """
        super().__init__(bootstrap_servers, client_id=client_id, security=security)
        self.group_id = group_id
        self.rejected: dict[TopicPartition, ErrorCode] = {}
        self._records_max = records_max
        self._membership = ShareMembership(
            group_id=group_id, member_id=format_uuid(Uuid(uuid.uuid4().bytes)), topics=topics
        )
        self._sender = Heartbeats(self.cluster, group_id, self._membership, ShareGroupHeartbeatResponse)
        self._sessions: dict[NodeId, ShareSession] = {}
        self._acquired: dict[NodeId, dict[TopicIdPartition, Acknowledgements]] = {}
        """By the leader that they were acquired from; no other one knows them."""
        self._polled: dict[TopicPartition, Acknowledgements] = {}
        """Those of `_acquired` that the last `poll` added."""
        self._names: dict[Uuid, str] = {}
        self._failing = FailingLeaders(self.cluster)

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def generation(self) -> int:
        """The member's epoch."""
        return self._membership.epoch

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the coordinator lets this member read now, sorted; other members may read them, too."""
        return sorted(
            TopicPartition(self._names[topic_id], number)
            for topic_id, numbers in self._membership.assigned.items()
            if topic_id in self._names
            for number in numbers
        )

    # --- reading -------------------------------------------------------------------------------------------------

    async def poll(self, *, max_wait_ms: int = 500) -> list[ConsumedRecord]:
        """Acknowledge the records of the last call, and return the next ones.

        Raises:
            KafkaError: an error that is not retriable, such as GROUP_AUTHORIZATION_FAILED.
            ClientError: brokers cannot be reached, or do not serve share groups.
        """
        if self._sender.failure is not None:
            raise self._sender.failure
        if not self._membership.is_member:
            await self._sender.join()
        wanted = await self.cluster.retry(self._by_leader)
        self.rejected = {}
        await self._acknowledge_elsewhere(wanted)
        if not wanted:
            await asyncio.sleep(max_wait_ms / 1000)
            return []
        self._polled = {}
        fetched = await asyncio.gather(
            *(self._fetch_from(leader, partitions, max_wait_ms) for leader, partitions in wanted.items())
        )
        records = [record for of_leader in fetched for record in of_leader]
        # Not before: a call that raises, or is canceled, returns none of what it has acquired.
        for record in records:
            self.acknowledge(record, AcknowledgeType.ACCEPT)
        return records

    def acknowledge(self, record: ConsumedRecord, kind: AcknowledgeType) -> None:
        """Decide about a record of the last `poll`; records without a decision are accepted.

        RENEW is not supported: a request that renews locks fetches nothing.
        """
        assert kind is not AcknowledgeType.RENEW, "this member does not renew acquisition locks"
        acknowledgements = self._polled.get(TopicPartition(record.topic, record.partition))
        if acknowledgements is not None and record.offset in acknowledgements:
            acknowledgements.decide(record.offset, kind)

    def rewind(self, records: Iterable[ConsumedRecord]) -> None:
        """Release ``records``, which the last `poll` returned: any member may get them."""
        for record in records:
            self.acknowledge(record, AcknowledgeType.RELEASE)

    async def _by_leader(self) -> dict[NodeId, set[TopicIdPartition]]:
        assigned = self._membership.assigned
        self._names |= await self.cluster.topic_names(assigned)
        wanted: dict[NodeId, set[TopicIdPartition]] = {}
        for topic_id, numbers in assigned.items():
            name = self._names.get(topic_id)
            if name is None:
                continue
            for number in numbers:
                leader = await self.cluster.leader(TopicPartition(name, number))
                wanted.setdefault(leader, set()).add(TopicIdPartition(topic_id, number))
        return wanted

    def _take_acknowledgements(self, leader: NodeId) -> _Batches:
        acquired = self._acquired.pop(leader, {})
        return {where: batches for where, each in acquired.items() if (batches := each.take())}

    async def _fetch_from(
        self, leader: NodeId, wanted: set[TopicIdPartition], max_wait_ms: int
    ) -> list[ConsumedRecord]:
        session = self._sessions.setdefault(leader, ShareSession())
        acknowledged = self._take_acknowledgements(leader) if session.epoch != INITIAL_EPOCH else {}
        topics, removed = session.fetch_topics(wanted, acknowledged)
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_SIZE_BYTES_MAX,
            max_records=self._records_max,
            batch_size=self._records_max,
            topics=topics,
            forgotten_topics_data=removed,
        )
        try:
            response = await self.cluster.send_to_node(
                leader,
                request,
                ShareFetchResponse,
                timeout_s=self.cluster.request_timeout_s + max_wait_ms / 1000,
            )
        except _NO_RESPONSE:
            if not self._failing.may_recover(leader):
                raise
            session.on_lost()
            self._note_all_rejected(acknowledged, ErrorCode.NETWORK_EXCEPTION)
            for where in wanted:
                self.cluster.invalidate_topic(self._names[where.topic_id])
            await asyncio.sleep(BACKOFF_FIRST_S)
            return []
        self._failing.on_response(leader)
        if response.error_code in _LOST_SESSION:
            session.on_lost()
            self._note_all_rejected(acknowledged, response.error_code)
            await asyncio.sleep(BACKOFF_FIRST_S)
            return []
        raise_for(response.error_code, response.error_message or f"group {self.group_id}")
        session.on_success()
        records: list[ConsumedRecord] = []
        for topic in response.responses:
            for entry in topic.partitions:
                records += await self._take(leader, TopicIdPartition(topic.topic_id, entry.partition_index), entry)
        return records

    async def _take(self, leader: NodeId, where: TopicIdPartition, entry: PartitionData) -> list[ConsumedRecord]:
        name = self._names[where.topic_id]
        self._note_rejected(name, where.partition, entry.acknowledge_error_code)
        if entry.error_code in _SEARCH_AGAIN:
            self.cluster.invalidate_topic(name)
            await asyncio.sleep(BACKOFF_FIRST_S)
            return []
        raise_for(entry.error_code, entry.error_message or f"partition {name}-{where.partition}")
        if entry.records is None or not entry.acquired_records:
            return []
        acquired = {
            offset for each in entry.acquired_records for offset in range(each.first_offset, each.last_offset + 1)
        }
        assert isinstance(entry.records, memoryview | bytes | bytearray)
        partition = TopicPartition(name, where.partition)
        records: list[ConsumedRecord] = []
        for batch in iterate_batches(entry.records):
            batch.check_crc()
            if not batch.is_control and not acquired.isdisjoint(range(batch.base_offset, batch.next_offset)):
                records += [record for record in consumed_records(partition, batch) if record.offset in acquired]
        acknowledgements = self._acquired.setdefault(leader, {}).setdefault(where, Acknowledgements())
        self._polled[partition] = acknowledgements
        acknowledgements.acquire(acquired, (record.offset for record in records))
        return records

    def _note_all_rejected(self, acknowledged: Iterable[TopicIdPartition], code: int) -> None:
        for where in acknowledged:
            self._note_rejected(self._names[where.topic_id], where.partition, code)

    def _note_rejected(self, topic: str, partition: int, code: int) -> None:
        if code:
            self.rejected[TopicPartition(topic, partition)] = ErrorCode(code)

    # --- acknowledging -------------------------------------------------------------------------------------------

    async def _acknowledge_elsewhere(self, wanted: dict[NodeId, set[TopicIdPartition]]) -> None:
        """Acknowledge records that were acquired from leaders, or of partitions, that are not fetched any more."""
        for leader, acquired in list(self._acquired.items()):
            if not acquired.keys() <= wanted.get(leader, set()):
                await self._acknowledge(leader, self._sessions.get(leader, ShareSession()).epoch)

    async def _acknowledge(self, leader: NodeId, epoch: int) -> None:
        acknowledged = self._take_acknowledgements(leader)
        session = self._sessions.get(leader)
        if session is None or session.epoch == INITIAL_EPOCH:
            return  # the leader has no session: it releases the records by itself
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=acknowledge_topics(acknowledged),
        )
        try:
            response = await self.cluster.send_to_node(leader, request, ShareAcknowledgeResponse)
        except _NO_RESPONSE:
            session.on_lost()
            self._note_all_rejected(acknowledged, ErrorCode.NETWORK_EXCEPTION)
            return
        if response.error_code:
            session.on_lost()
            self._note_all_rejected(acknowledged, response.error_code)
            return
        session.on_success()
        for topic in response.responses:
            for entry in topic.partitions:
                self._note_rejected(self._names[topic.topic_id], entry.partition_index, entry.error_code)

    async def close(self) -> None:
        """Acknowledge the records of the last `poll`, leave the group and close."""
        try:
            with contextlib.suppress(ClientError, KafkaError):
                try:
                    for leader in list(self._sessions):
                        await self._acknowledge(leader, FINAL_EPOCH)
                finally:
                    await self._sender.stop()
                    await self._sender.leave()
        finally:
            await super().close()
