"""AlterPartition (api key 56, v2-v3): a partition's leader asks for another in-sync set (KIP-497).

Between nodes only. v3 names each replica's broker epoch (KIP-903); in v2 none is known. Decided by
`ottla.controller.alter_partition`. Source: AlterPartitionRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState


@serves(api_key=56, versions=range(2, 4))
def alter_partition(context: RequestContext, request: AlterPartitionRequest) -> Delayed[Message]:
    """Give both versions one form, and pass the request on to the active controller."""
    if context.api_version == 2:
        for topic in request.topics:
            for partition in topic.partitions:
                partition.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in partition.new_isr]
    return ask_controller(context, request, requires=Operation.CLUSTER_ACTION)
