"""AlterConfigs (api key 33, v0-v2): replace everything that is set on topics, brokers, groups and more.

v2 flexible. Apache Kafka 4 and its tools have left it for IncrementalAlterConfigs; librdkafka and others send it.
Decided by `ottla.controller.configs`. Not done: authorization, levels of loggers.
Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from ottla.errors import KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.config_resources import check_alterable
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@serves(api_key=33, versions=range(0, 3))
def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> Delayed[Message]:
    """Refuse what this broker must not pass on; pass the rest on to the active controller."""
    refused: dict[int, AlterConfigsResourceResponse] = {}
    for index, resource in enumerate(request.resources):
        try:
            check_alterable(context, resource.resource_type, resource.resource_name)
        except KafkaError as error:
            refused[index] = AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
    passed_on = AlterConfigsRequest(
        resources=[resource for index, resource in enumerate(request.resources) if index not in refused],
        validate_only=request.validate_only,
    )

    def merge(response: Message) -> Message:
        assert isinstance(response, AlterConfigsResponse)
        decided = iter(response.responses)
        count = len(request.resources)
        return AlterConfigsResponse(
            responses=[refused[index] if index in refused else next(decided) for index in range(count)]
        )

    return context.services.controller.send(passed_on).then(merge)
