"""`OffsetService`: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and removal of deleted topics' offsets.

Source: GroupCoordinatorService of Kafka.
"""

from collections.abc import Iterable
from typing import Protocol

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.shard import CoordinatorShard
from ottla.coordinator.transactions import TransactionalProducer
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.log import GroupRecord
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.offsets.commit import CommitResult, commit_offsets, failed_commit
from ottla.groups.offsets.delete import delete_offsets, tombstone
from ottla.groups.offsets.fetch import fetch_offsets
from ottla.groups.offsets.member_check import EpochGroup, check_fetch
from ottla.groups.offsets.store import OffsetStore
from ottla.groups.offsets.transactional_commit import commit_transactional_offsets, failed_transactional_commit
from ottla.groups.share.groups import ShareGroups
from ottla.purgatory import Delayed
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class OffsetShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses: offsets, and groups that validate commits."""

    offsets: OffsetStore
    rebalancer: Rebalancer
    shares: ShareGroups
    topics: ClusterTopics

    def group_with_offsets(self, group_id: str) -> ClassicGroup | EpochGroup | None:
        """Return the group with this id; None also for a share group."""

    def epoch_group(self, group_id: str) -> EpochGroup | None:
        """Return the group with this id; None for a classic group or a share group."""


class OffsetService:
    """Operations on committed offsets.

    Old simple consumers may commit to and fetch from the group whose id is empty.
    """

    def __init__(self, *, runtime: CoordinatorRuntime[OffsetShard]) -> None:
        self._runtime = runtime

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int) -> Delayed[OffsetCommitResponse]:
        """Store offsets; every partition in ``request`` exists, with its topic's name and id (see the handler)."""

        def commit(shard: OffsetShard) -> CommitResult:
            _reject_share_group(shard, request.group_id)
            return commit_offsets(shard.rebalancer, shard.epoch_group(request.group_id), request, api_version)

        return self._runtime.run_write_operation(request.group_id, commit, lambda error: failed_commit(request, error))

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Delayed[TxnOffsetCommitResponse]:
        """Store offsets in the producer's transaction; every partition in ``request`` exists (see the handler)."""

        def failed(error: ErrorCode) -> TxnOffsetCommitResponse:
            return failed_transactional_commit(request, error, api_version)

        def commit(shard: OffsetShard) -> CoordinatorResult[GroupRecord, TxnOffsetCommitResponse]:
            _reject_share_group(shard, request.group_id)
            group = shard.epoch_group(request.group_id)
            return commit_transactional_offsets(shard.rebalancer, shard.topics, group, request, api_version)

        if not request.group_id:
            return Delayed.of(failed(ErrorCode.INVALID_GROUP_ID))
        return self._runtime.run_transactional_write_operation(
            request.group_id,
            TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch),
            api_version,
            commit,
            failed,
        )

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Delayed[OffsetFetchResponseGroup]:
        """Return a group's offsets of the topics in ``request``."""

        def failed(error: ErrorCode) -> OffsetFetchResponseGroup:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Consumers before 3.9 know only this error code.
                error = ErrorCode.NOT_COORDINATOR
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=int(error))

        return self._runtime.run_read_operation(
            request.group_id,
            lambda shard: _fetch_offsets(shard, request, require_stable=require_stable),
            failed,
            must_be_latest=True,
        )

    def committed_partitions(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """Return the partitions with offsets of a group; none if this node is not its coordinator."""
        try:
            shard = self._runtime.context_for(group_id).shard
        except KafkaError:
            return []
        return [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in shard.offsets.of_group(group_id).items()
        ]

    def delete_offsets(self, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
        def failed(error: ErrorCode) -> OffsetDeleteResponse:
            return OffsetDeleteResponse(error_code=int(error))

        if not request.group_id:
            return Delayed.of(failed(ErrorCode.INVALID_GROUP_ID))
        return self._runtime.run_write_operation(
            request.group_id,
            lambda shard: delete_offsets(shard.offsets, shard.group_with_offsets(request.group_id), request),
            failed,
        )

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Remove the offsets that groups have committed for deleted topics."""
        deleted = frozenset(topics)

        def tombstones(shard: OffsetShard) -> CoordinatorResult[GroupRecord, None]:
            records = [tombstone(key) for key in shard.offsets.keys_of_topics(deleted)]
            return CoordinatorResult(records=records, response=None, is_atomic=False)

        self._runtime.write_to_all(tombstones)


def _reject_share_group(shard: OffsetShard, group_id: str) -> None:
    """Reject commits to a share group: the state of its partitions is kept by the share coordinators.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    if group_id in shard.shares.groups:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a share group.")


def _fetch_offsets(
    shard: OffsetShard, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets; those of a group with epochs only to members with their current one, or to others."""
    group = shard.epoch_group(request.group_id)
    if group is not None:
        check_fetch(group, request.member_id, request.member_epoch)
    return fetch_offsets(shard.offsets, request, require_stable=require_stable)
