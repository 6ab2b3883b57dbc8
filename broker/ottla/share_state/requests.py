"""The five requests about the state of share-partitions: one call as a part of a request, and its result.

Source: WriteShareGroupState, ReadShareGroupState and their siblings in Apache Kafka 4.3; RequestCoalescerHelper of its
PersisterStateManager.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ottla.errors import ErrorCode
from ottla.share_state.persister import ReadState, StateBatch, StateResult, StateSummary
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import delete_share_group_state as delete_messages
from ottla.wire.messages import initialize_share_group_state as initialize_messages
from ottla.wire.messages import read_share_group_state as read_messages
from ottla.wire.messages import read_share_group_state_summary as summary_messages
from ottla.wire.messages import write_share_group_state as write_messages

PartitionStruct: TypeAlias = Any
"""A partition in a request or response of one of the five APIs."""
StateResponse: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateApi:
    """One of the five APIs, as far as the client needs to know it.

    Attributes:
        method: of `Persister`.
        partition: the struct of a partition in the request; its fields, except for the partition, are the arguments
            of ``method``, or the fields of its `StateWrite`, whose batches are ``state_batches``.
        result: the class of results; its first two fields are the error and its message.
        to_result: returns the result for the struct of a partition in the response.
    """

    method: str
    request: Callable[..., Message]
    response: type[Message]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    result: Callable[..., Any]
    to_result: Callable[[Any], Any]

    def build(self, group_id: str, partitions: dict[Uuid, list[Any]]) -> Message:
        """Return a request for the partitions of one group, by topic."""
        topics = [self.topic(topic_id=topic_id, partitions=of_topic) for topic_id, of_topic in partitions.items()]
        return self.request(group_id=group_id, topics=topics)

    def to_partition(self, index: int, arguments: dict[str, Any]) -> PartitionStruct:
        """Return the struct of a partition in the request, for the arguments of a call."""
        if "write" not in arguments:
            return self.partition(partition=index, **arguments)
        fields = arguments["write"]._asdict()
        return self.partition(partition=index, state_batches=fields.pop("batches"), **fields)

    def results(self, response: StateResponse) -> dict[tuple[Uuid, int], Any]:
        """Return the results in a response."""
        return {
            (topic.topic_id, partition.partition): self.to_result(partition)
            for topic in response.results
            for partition in topic.partitions
        }


def _to_state_result(partition: PartitionStruct) -> StateResult:
    return StateResult(ErrorCode(partition.error_code), partition.error_message)


def _to_read_state(partition: read_messages.PartitionResult) -> ReadState:
    return ReadState(
        ErrorCode(partition.error_code),
        partition.error_message,
        partition.state_epoch,
        partition.start_offset,
        tuple(
            StateBatch(it.first_offset, it.last_offset, it.delivery_state, it.delivery_count)
            for it in partition.state_batches
        ),
    )


def _to_summary(partition: summary_messages.PartitionResult) -> StateSummary:
    return StateSummary(
        ErrorCode(partition.error_code),
        partition.error_message,
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        partition.delivery_complete_count,
    )


INITIALIZE: Final = StateApi(
    method="initialize",
    request=initialize_messages.InitializeShareGroupStateRequest,
    response=initialize_messages.InitializeShareGroupStateResponse,
    topic=initialize_messages.InitializeStateData,
    partition=initialize_messages.PartitionData,
    result=StateResult,
    to_result=_to_state_result,
)
READ: Final = StateApi(
    method="read",
    request=read_messages.ReadShareGroupStateRequest,
    response=read_messages.ReadShareGroupStateResponse,
    topic=read_messages.ReadStateData,
    partition=read_messages.PartitionData,
    result=ReadState,
    to_result=_to_read_state,
)
READ_SUMMARY: Final = StateApi(
    method="read_summary",
    request=summary_messages.ReadShareGroupStateSummaryRequest,
    response=summary_messages.ReadShareGroupStateSummaryResponse,
    topic=summary_messages.ReadStateSummaryData,
    partition=summary_messages.PartitionData,
    result=StateSummary,
    to_result=_to_summary,
)
WRITE: Final = StateApi(
    method="write",
    request=write_messages.WriteShareGroupStateRequest,
    response=write_messages.WriteShareGroupStateResponse,
    topic=write_messages.WriteStateData,
    partition=write_messages.PartitionData,
    result=StateResult,
    to_result=_to_state_result,
)
DELETE: Final = StateApi(
    method="delete",
    request=delete_messages.DeleteShareGroupStateRequest,
    response=delete_messages.DeleteShareGroupStateResponse,
    topic=delete_messages.DeleteStateData,
    partition=delete_messages.PartitionData,
    result=StateResult,
    to_result=_to_state_result,
)
