"""DescribeProducers (api key 61, v0): the producers whose state partitions hold.

Source: DescribeProducersRequest.json; KIP-664; ReplicaManager.activeProducerState of Apache Kafka 4.3.
"""

from ottla.errors import MESSAGES, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@serves(api_key=61, versions=range(0, 1))
def describe_producers(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """List each partition's producers; only its leader answers."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            answer = PartitionResponse(partition_index=index)
            answers.append(answer)
            try:
                context.require_on_topic(Operation.READ, topic.name)
                partition = context.services.replicas.get(topic.name, index)
                partition.require_leadership()
            except KafkaError as error:
                answer.error_code = error.code
                answer.error_message = error.message or MESSAGES.get(error.code)
                continue
            answer.active_producers = [
                ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp_ms,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.current_transaction_first_offset,
                )
                for producer in partition.log.active_producers()
            ]
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
    return response
