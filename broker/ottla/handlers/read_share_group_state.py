"""ReadShareGroupState (api key 84, v0): read the state of share-partitions for their new leader (KIP-932).

Source: ReadShareGroupStateRequest.json; KafkaApis.handleReadShareGroupStateRequest of Apache Kafka 4.3.
"""

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.log import encodable
from ottla.share_state.persister import ReadState, SharePartitionKey
from ottla.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)


@serves(api_key=84, versions=range(0, 1))
def read_share_group_state(context: RequestContext, request: ReadShareGroupStateRequest) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[ReadState]:
        return context.services.share_coordinator.read(key, leader_epoch=each.leader_epoch)

    def to_result(partition: int, result: ReadState) -> PartitionResult:
        return PartitionResult(
            partition=partition,
            state_epoch=result.state_epoch,
            start_offset=result.start_offset,
            state_batches=encodable(result.batches),
        )

    return serve_partitions(
        context,
        request,
        call=call,
        to_result=to_result,
        to_error=PartitionResult,
        to_topic=ReadStateResult,
        to_response=ReadShareGroupStateResponse,
    )
