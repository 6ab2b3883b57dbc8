"""IncrementalAlterConfigs (api key 44, v0-v1): set, delete, append to or subtract from single values (KIP-339).

v1 flexible.
Decided by `ottla.controller.configs`. Not done: levels of loggers.
Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from functools import partial

from ottla.config.alter import Alteration, AlterOperation, apply_alterations
from ottla.config.resource_type import ConfigResourceType
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.config_resources import forward_alterable
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.codec import Message
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_RESOURCES = Entries("resources", "responses", key="resource_type resource_name")


@serves(api_key=44, versions=range(0, 2))
def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Delayed[Message] | Steps[Message]:
    """Reject what this broker must not forward; forward the rest to the active controller."""
    return forward_in_parts(request, _RESOURCES, partial(_alter, context))


def _alter(context: RequestContext, request: IncrementalAlterConfigsRequest) -> Delayed[Message]:
    forwarded = forward_alterable(
        context,
        request.resources,
        values_after=_values_after,
        result_type=AlterConfigsResourceResponse,
        request_for=lambda rest: IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only),
        results_in=_results_in,
    )
    return forwarded.then(lambda results: IncrementalAlterConfigsResponse(responses=results))


def _values_after(resource: AlterConfigsResource, before: Mapping[str, str]) -> Mapping[str, str]:
    alterations = [
        Alteration(config.name, AlterOperation(config.config_operation), config.value) for config in resource.configs
    ]
    return apply_alterations(ConfigResourceType.BROKER, before, alterations)


def _results_in(response: Message) -> list[AlterConfigsResourceResponse]:
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.responses
