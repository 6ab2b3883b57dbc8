"""DeleteShareGroupState (api key 86, v0): remove the state of share-partitions (KIP-932).

Source: DeleteShareGroupStateRequest.json; KafkaApis.handleDeleteShareGroupStateRequest of Apache Kafka 4.3.
"""

from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.share_group_state import serve_partitions
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import SharePartitionKey, StateResult
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


@serves(api_key=86, versions=range(0, 1))
def delete_share_group_state(context: RequestContext, request: DeleteShareGroupStateRequest) -> Steps[HandlerResult]:
    """Respond with the result of each partition."""

    def call(key: SharePartitionKey, each: PartitionData) -> Delayed[StateResult]:
        return context.services.share_coordinator.delete(key)

    return serve_partitions(
        context,
        request,
        call=call,
        to_result=lambda partition, _: PartitionResult(partition=partition),
        to_error=PartitionResult,
        to_topic=DeleteStateResult,
        to_response=DeleteShareGroupStateResponse,
    )
