"""InitializeShareGroupState (api key 83, v0): create or reset the state of share-partitions (KIP-932).

Source: InitializeShareGroupStateRequest.json; KafkaApis.handleInitializeShareGroupStateRequest of Apache Kafka 4.3.
"""

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import SharePartitionKey, StateResult
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


@serves(api_key=83, versions=range(0, 1))
def initialize_share_group_state(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[StateResult]:
        return context.services.share_coordinator.initialize(
            key, state_epoch=each.state_epoch, start_offset=each.start_offset
        )

    return serve_partitions(
        context,
        request,
        call=call,
        to_result=lambda partition, _: PartitionResult(partition=partition),
        to_error=PartitionResult,
        ignores_empty_topics=True,
        to_topic=InitializeStateResult,
        to_response=InitializeShareGroupStateResponse,
    )
