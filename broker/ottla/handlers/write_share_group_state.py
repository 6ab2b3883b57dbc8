"""WriteShareGroupState (api key 85, v0-v1): merge delivery states into the state of share-partitions (KIP-932).

v1 the number of records that are delivered (KIP-1226).
Source: WriteShareGroupStateRequest.json; KafkaApis.handleWriteShareGroupStateRequest of Apache Kafka 4.3.
"""

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import SharePartitionKey, StateBatch, StateResult
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


@serves(api_key=85, versions=range(0, 2))
def write_share_group_state(context: RequestContext, request: WriteShareGroupStateRequest) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[StateResult]:
        return context.services.share_coordinator.write(
            key,
            state_epoch=each.state_epoch,
            leader_epoch=each.leader_epoch,
            start_offset=each.start_offset,
            delivery_complete_count=each.delivery_complete_count,
            batches=tuple(
                StateBatch(it.first_offset, it.last_offset, it.delivery_state, it.delivery_count)
                for it in each.state_batches
            ),
        )

    return serve_partitions(
        context,
        request,
        call=call,
        to_result=lambda partition, _: PartitionResult(partition=partition),
        to_error=PartitionResult,
        to_response=lambda results: WriteShareGroupStateResponse(
            results=[WriteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in results]
        ),
    )
