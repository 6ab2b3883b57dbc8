"""WriteShareGroupState (api key 85, v0-v1): merge delivery states into the state of share-partitions (KIP-932).

v1 the number of records that are delivered (KIP-1226).
Source: WriteShareGroupStateRequest.json; KafkaApis.handleWriteShareGroupStateRequest of Apache Kafka 4.3.
"""

from typing import Any, Final, cast

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import SharePartitionKey, StateBatch, StateResult, StateWrite
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ottla.wire.messages.write_share_group_state import StateBatch as StateBatchStruct

_BATCHES_PER_STEP: Final = 256


@serves(api_key=85, versions=range(0, 2))
def write_share_group_state(context: RequestContext, request: WriteShareGroupStateRequest) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[StateResult]:
        write = StateWrite(
            state_epoch=each.state_epoch,
            leader_epoch=each.leader_epoch,
            start_offset=each.start_offset,
            delivery_complete_count=each.delivery_complete_count,
            batches=tuple(cast("list[StateBatch]", each.state_batches)),
        )
        return context.services.share_coordinator.write(key, write)

    return serve_partitions(
        context,
        request,
        prepare=_convert_batches,
        call=call,
        to_result=lambda partition, _: PartitionResult(partition=partition),
        to_error=PartitionResult,
        to_topic=WriteStateResult,
        to_response=WriteShareGroupStateResponse,
    )


def _convert_batches(partition: PartitionData) -> Steps[None]:
    """Replace the structs of a partition by the values that the coordinator merges.

    In place, so that each step frees its structs: all of them at once would be one stretch of the loop.
    """
    batches: list[Any] = partition.state_batches
    for start in range(0, len(batches), _BATCHES_PER_STEP):
        step = slice(start, start + _BATCHES_PER_STEP)
        batches[step] = [_to_state_batch(each) for each in batches[step]]
        yield None


def _to_state_batch(batch: StateBatchStruct) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
