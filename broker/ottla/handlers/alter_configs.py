"""AlterConfigs (api key 33, v0-v2): replace all settings of topics, brokers, groups and client metrics.

v2 flexible. Apache Kafka 4's tools use IncrementalAlterConfigs instead; librdkafka and others send this one.
Decided by `ottla.controller.configs`. Not done: levels of loggers.
Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from functools import partial

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.config_resources import forward_alterable
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.codec import Message
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

_RESOURCES = Entries("resources", "responses", key="resource_type resource_name")


@serves(api_key=33, versions=range(0, 3))
def alter_configs(context: RequestContext, request: AlterConfigsRequest) -> Delayed[Message] | Steps[Message]:
    """Reject what this broker must not forward; forward the rest to the active controller."""
    return forward_in_parts(request, _RESOURCES, partial(_alter, context))


def _alter(context: RequestContext, request: AlterConfigsRequest) -> Delayed[Message]:
    forwarded = forward_alterable(
        context,
        request.resources,
        values_after=_values_after,
        result_type=AlterConfigsResourceResponse,
        request_for=lambda rest: AlterConfigsRequest(resources=rest, validate_only=request.validate_only),
        results_in=_results_in,
    )
    return forwarded.then(lambda results: AlterConfigsResponse(responses=results))


def _values_after(resource: AlterConfigsResource, _: Mapping[str, str]) -> Mapping[str, str]:
    return {config.name: config.value for config in resource.configs if config.value is not None}


def _results_in(response: Message) -> list[AlterConfigsResourceResponse]:
    assert isinstance(response, AlterConfigsResponse)
    return response.responses
