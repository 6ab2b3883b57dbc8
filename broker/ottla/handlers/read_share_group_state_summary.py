"""ReadShareGroupStateSummary (api key 87, v0-v1): read start offsets and counts of share-partitions (KIP-932).

v1 the number of records that are delivered (KIP-1226).
Source: ReadShareGroupStateSummaryRequest.json; KafkaApis.handleReadShareGroupStateSummaryRequest of Apache Kafka 4.3.
"""

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import SharePartitionKey, StateSummary
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


@serves(api_key=87, versions=range(0, 2))
def read_share_group_state_summary(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[StateSummary]:
        return context.services.share_coordinator.read_summary(key, leader_epoch=each.leader_epoch)

    def to_result(partition: int, result: StateSummary) -> PartitionResult:
        return PartitionResult(
            partition=partition,
            state_epoch=result.state_epoch,
            leader_epoch=result.leader_epoch,
            start_offset=result.start_offset,
            delivery_complete_count=result.delivery_complete_count,
        )

    return serve_partitions(
        context,
        request,
        call=call,
        to_result=to_result,
        to_error=PartitionResult,
        to_topic=ReadStateSummaryResult,
        to_response=ReadShareGroupStateSummaryResponse,
    )
