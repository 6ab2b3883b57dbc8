"""`GroupAdministration`: ListGroups, DescribeGroups and DeleteGroups, over the groups of every protocol.

Source: GroupCoordinatorService, GroupMetadataManager of Kafka (listGroups, describeGroups, deleteGroups).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.describe import describe
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.deletion import deletion_records
from ottla.groups.group_type import GroupType
from ottla.groups.log import GroupRecord
from ottla.groups.metrics import GroupCounts
from ottla.groups.offsets.delete import tombstone
from ottla.groups.shard import GroupCoordinatorShard
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.offset_service import ShareOffsetService
from ottla.groups.share.state import ShareGroupState
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.state import NAMES_IN_FILTERS as STREAMS_STATES
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

DEAD: Final = "Dead"
COUNTED_PER_SLICE: Final = 1_000
_STATE_LENGTH_MAX: Final = 32

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup


class GroupAdministration:
    """Administration of groups: list, describe and delete."""

    def __init__(
        self, *, runtime: CoordinatorRuntime[GroupCoordinatorShard], share_offsets: ShareOffsetService
    ) -> None:
        self._runtime = runtime
        self._share_offsets = share_offsets

    def list_groups(self, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
        """Return the groups of all partitions that this node leads; none at all while one of them is being loaded."""
        if self._runtime.is_loading:
            error = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return ListGroupsResponse(error_code=error)
        response = ListGroupsResponse()
        known = {state.lower() for state in (*ClassicGroupState, *ConsumerGroupState, *ShareGroupState)}
        known.update(STREAMS_STATES.values())
        states = yield from _known_in(request.states_filter, known)
        types: set[str] = set(GroupType)
        if request.types_filter:
            types = yield from _known_in(request.types_filter, types)
        for shard in self._runtime.active_shards():
            groups = _groups_by_type(shard)
            found = [(group_type, each) for group_type in groups if group_type in types for each in groups[group_type]]
            for number, (group_type, group) in enumerate(found, 1):
                if not request.states_filter or _state_in_filters(group) in states:
                    response.groups.append(_list_entry(group, group_type))
                if number % 32 == 0:
                    yield None
        return response

    def count_groups(self, counts: GroupCounts) -> Iterator[None]:
        """Count the groups of the partitions that are served, in slices."""
        for shard in self._runtime.active_shards():
            for group_type, groups in _groups_by_type(shard).items():
                for part in batches(list(groups), COUNTED_PER_SLICE):
                    counts.update((group_type.value, group.state.value) for group in part)
                    yield

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return a classic group; a group that is none, or does not exist, is Dead, with GROUP_ID_NOT_FOUND."""
        try:
            shard = self._runtime.context_for(group_id).shard
            group = shard.rebalancer.groups.get(group_id)
            if group is None:
                reason = "is not a classic group" if shard.is_modern(group_id) else "not found"
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        except KafkaError as error:
            state = DEAD if error.code is ErrorCode.GROUP_ID_NOT_FOUND else ""
            return DescribedGroup(
                group_id=group_id, group_state=state, error_code=int(error.code), error_message=error.message
            )
        return describe(group)

    def delete_group(self, group_id: str) -> Delayed[DeletableGroupResult]:
        """Delete a group without members, and its offsets; of a share group, the states of its partitions first."""

        def failed(error: ErrorCode) -> DeletableGroupResult:
            return DeletableGroupResult(group_id=group_id, error_code=int(error))

        def delete() -> Delayed[DeletableGroupResult]:
            return self._runtime.run_write_operation(group_id, lambda shard: _delete_group(shard, group_id), failed)

        return self._share_offsets.delete_states_of_group(group_id).then_compose(
            lambda error: delete() if error is ErrorCode.NONE else Delayed.of(failed(error))
        )


def _delete_group(shard: GroupCoordinatorShard, group_id: str) -> CoordinatorResult[GroupRecord, DeletableGroupResult]:
    """Return the tombstones of a group and of all of its offsets.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP: it has members.
    """
    group = shard.group_with_offsets(group_id) or shard.shares.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    offsets = [tombstone(key) for key in shard.offsets.keys_of_group(group_id)]
    return CoordinatorResult(
        records=[*offsets, *deletion_records(group)], response=DeletableGroupResult(group_id=group_id)
    )


def _groups_by_type(shard: GroupCoordinatorShard) -> Mapping[GroupType, Collection[Group]]:
    return {
        GroupType.CLASSIC: shard.rebalancer.groups.values(),
        GroupType.CONSUMER: shard.consumers.groups.values(),
        GroupType.SHARE: shard.shares.groups.values(),
        GroupType.STREAMS: shard.streams.groups.values(),
    }


def _state_in_filters(group: Group) -> str:
    return STREAMS_STATES[group.state] if isinstance(group, StreamsGroup) else group.state.lower()


def _list_entry(group: Group, group_type: GroupType) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=(group.protocol_type or "") if isinstance(group, ClassicGroup) else group_type.value,
        group_state=group.state.value,
        group_type=group_type.value,
    )


def _known_in(names: list[str], known: set[str]) -> Steps[set[str]]:
    """Return those of ``known`` that are in a client's filter, case-insensitively."""
    found: set[str] = set()
    for number, name in enumerate(names, 1):
        if len(name) <= _STATE_LENGTH_MAX and name.lower() in known:
            found.add(name.lower())
        if number % 256 == 0:
            yield None
    return found
