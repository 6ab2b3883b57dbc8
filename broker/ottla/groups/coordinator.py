"""`GroupCoordinator`: routes requests to the services of the group protocols, and events of the node to the runtime.

Source: GroupCoordinatorService of Kafka.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from ottla.coordinator.context import ContextState
from ottla.coordinator.log import CoordinatorLog
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorTimer
from ottla.coordinator.transactions import TransactionEnd
from ottla.errors import ErrorCode
from ottla.groups.administration import GroupAdministration
from ottla.groups.classic.service import ClassicGroupService
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.heartbeat import PreparedUpgrade
from ottla.groups.consumer.reconciliation import OwnedPartitions
from ottla.groups.consumer.regex_resolution import MayDescribe
from ottla.groups.consumer.service import ConsumerGroupService
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.log import GROUP_RECORD_SERDE, GroupRecord
from ottla.groups.metrics import GroupCounts
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.offsets.service import OffsetService
from ottla.groups.shard import GroupCoordinatorShard
from ottla.groups.share.end_offsets import EndOffsets
from ottla.groups.share.offset_service import ShareOffsetService
from ottla.groups.share.service import ShareGroupService
from ottla.groups.share.settings import ShareGroupSettings
from ottla.groups.streams.service import StreamsGroupService
from ottla.groups.streams.settings import StreamsGroupSettings
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import Persister
from ottla.types import CONSUMER_OFFSETS_TOPIC, LeaderEpoch
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.records import RecordBatch


class GroupCoordinator:
    """The group coordinator of one node: all groups whose ``__consumer_offsets`` partition it leads.

    Attributes:
        share: members of share groups.
        share_offsets: start offsets of share groups.
        streams: members of streams groups.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        clock: Clock,
        random: Random,
        log: CoordinatorLog,
        metadata: MetadataCache,
        persister: Persister,
        end_offsets: EndOffsets,
    ) -> None:
        """Start with no partition led; ``persister`` keeps the state of share-partitions, leaders have their ends."""
        self._topics = ClusterTopics(metadata)
        self._consumer_settings = ConsumerGroupSettings(config, metadata.group_config)
        self._share_settings = ShareGroupSettings(config, metadata.group_config)
        self._streams_settings = StreamsGroupSettings(config, metadata.group_config)

        def build_shard(timer: CoordinatorTimer[GroupRecord]) -> GroupCoordinatorShard:
            return GroupCoordinatorShard(
                config=config,
                consumer_settings=self._consumer_settings,
                share_settings=self._share_settings,
                streams_settings=self._streams_settings,
                topics=self._topics,
                clock=clock,
                random=random,
                timer=timer,
            )

        settings = CoordinatorSettings(
            topic_name=CONSUMER_OFFSETS_TOPIC,
            partition_count=lambda: metadata.partition_count(CONSUMER_OFFSETS_TOPIC),
            serde=GROUP_RECORD_SERDE,
            build_shard=build_shard,
            write_timeout_ms=config.offset_commit_timeout_ms,
        )
        self._runtime = CoordinatorRuntime(settings=settings, clock=clock, log=log)
        self._classic = ClassicGroupService(runtime=self._runtime, config=config)
        self._consumer = ConsumerGroupService(runtime=self._runtime, settings=self._consumer_settings)
        self._offsets = OffsetService(runtime=self._runtime)
        self.share = ShareGroupService(runtime=self._runtime, persister=persister)
        self.share_offsets = ShareOffsetService(
            runtime=self._runtime,
            persister=persister,
            end_offsets=end_offsets,
            topics=self._topics,
            members=self.share,
        )
        self.streams = StreamsGroupService(runtime=self._runtime)
        self._administration = GroupAdministration(runtime=self._runtime, share_offsets=self.share_offsets)

    # The node's side

    def use_config(self, config: GroupConfig) -> None:
        """Apply what changes while the node runs: the settings of consumer, share and streams groups."""
        self._consumer_settings.config = config
        self._share_settings.config = config
        self._streams_settings.config = config

    def partition_for(self, group_id: str) -> int | None:
        """Return the partition of ``__consumer_offsets`` that holds the group; None while there is no such topic."""
        return self._runtime.partition_for(group_id)

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """See `CoordinatorRuntime.on_elected`."""
        self._runtime.on_elected(partition, leader_epoch, batches)

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """See `CoordinatorRuntime.on_resigned`."""
        self._runtime.on_resigned(partition, leader_epoch)

    def on_metadata_update(self, delta: MetadataDelta) -> None:
        """Remove the offsets and share-partitions of deleted topics; note changed ones for the next heartbeats."""
        deleted = [topic.name for topic in delta.topics.deleted_topics.values()]
        if deleted:
            self._offsets.on_topics_deleted(deleted)
            self.share_offsets.on_topics_deleted()
        self._topics.on_metadata_update(delta)

    def tick(self, now_ms: int) -> int | None:
        """See `CoordinatorRuntime.tick`."""
        return self._runtime.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """See `CoordinatorRuntime.next_deadline_ms`."""
        return self._runtime.next_deadline_ms()

    # Membership

    def prepare_join(self, request: JoinGroupRequest) -> Steps[ConsumerProtocolSubscription | None]:
        """See `ClassicGroupService.prepare_join`."""
        return self._classic.prepare_join(request)

    def join_group(
        self,
        client: Client,
        api_version: int,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription | None = None,
    ) -> Delayed[JoinGroupResponse]:
        return self._classic.join_group(client, api_version, request, subscription)

    def sync_group(self, request: SyncGroupRequest) -> Delayed[SyncGroupResponse]:
        return self._classic.sync_group(request)

    def heartbeat(self, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
        return self._classic.heartbeat(request)

    def leave_group(self, request: LeaveGroupRequest) -> Delayed[LeaveGroupResponse]:
        return self._classic.leave_group(request)

    def prepare_consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> Steps[PreparedUpgrade]:
        """See `ConsumerGroupService.prepare`."""
        return self._consumer.prepare(request)

    def consumer_heartbeat(
        self,
        client: Client,
        api_version: int,
        request: ConsumerGroupHeartbeatRequest,
        owned: OwnedPartitions | None,
        may_describe: MayDescribe,
        upgrade: PreparedUpgrade = None,
    ) -> Delayed[ConsumerGroupHeartbeatResponse]:
        return self._consumer.heartbeat(client, api_version, request, owned, may_describe, upgrade)

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> Delayed[OffsetCommitResponse]:
        return self._offsets.commit_offsets(request, api_version)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Delayed[TxnOffsetCommitResponse]:
        return self._offsets.commit_transactional_offsets(request, api_version)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Delayed[OffsetFetchResponseGroup]:
        return self._offsets.fetch_offsets(request, require_stable=require_stable)

    def committed_partitions(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        return self._offsets.committed_partitions(group_id)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
        return self._offsets.delete_offsets(request)

    def end_transaction(self, partition: int, end: TransactionEnd) -> Delayed[ErrorCode]:
        """See `CoordinatorRuntime.end_transaction`."""
        return self._runtime.end_transaction(partition, end)

    # Administration

    def list_groups(self, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        return self._administration.list_groups(request)

    def count_groups(self, counts: GroupCounts) -> Iterator[None]:
        """See `GroupAdministration.count_groups`."""
        return self._administration.count_groups(counts)

    def count_partitions(self) -> Counter[ContextState]:
        """See `CoordinatorRuntime.count_partitions`."""
        return self._runtime.count_partitions()

    def describe_group(self, group_id: str) -> DescribedGroup:
        return self._administration.describe_group(group_id)

    def describe_consumer_group(self, group_id: str) -> Steps[DescribedConsumerGroup]:
        return self._consumer.describe_group(group_id)

    def delete_group(self, group_id: str) -> Delayed[DeletableGroupResult]:
        return self._administration.delete_group(group_id)
