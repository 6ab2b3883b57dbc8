"""DescribeConfigs (api key 32, v1-v4): the configuration of topics, brokers, groups and client metrics.

v1 sources and synonyms; v3 types and documentation; v4 flexible. Each value has the layer that it comes from.

Not done: levels of loggers. Source: ConfigHelper of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Iterator
from typing import TypeAlias

from ottla.config.layers import (
    ConfigSynonym,
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.config_resources import broker_layers, require_on_resource
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.purgatory.steps import Steps
from ottla.quoting import cut_name
from ottla.wire.acl_codes import Operation
from ottla.wire.codec.primitives import LazyArray
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_Resource: TypeAlias = "tuple[int, str]"
"""Type and name of a resource."""

_KEYS_PER_STEP = 512
_NO_KEYS: set[str] = set()
_NAME_MISSING = {
    int(ConfigResourceType.GROUP): "Group name must not be empty",
    int(ConfigResourceType.CLIENT_METRICS): "Client metrics subscription name must not be empty",
}


@serves(api_key=32, versions=range(1, 5))
def describe_configs(context: RequestContext, request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """Describe each resource, duplicates once; a resource that cannot be described has an error of its own."""
    wanted: dict[_Resource, set[str] | None] = {}
    for resource in request.resources:
        yield from _note_keys(wanted, resource)
    request.resources = []  # otherwise they would be kept until the last of them is described
    results = LazyArray(len(wanted), _describe_each(context, request, wanted))
    return DescribeConfigsResponse(results=results.as_list)


def _describe_each(
    context: RequestContext, request: DescribeConfigsRequest, wanted: dict[_Resource, set[str] | None]
) -> Iterator[DescribeConfigsResult]:
    resources = list(wanted)
    resources.reverse()
    while resources:
        # Removed one by one: freeing all at once would take longer than a slice.
        resource = resources.pop()
        yield _describe(context, request, *resource, wanted.pop(resource))


def _note_keys(wanted: dict[_Resource, set[str] | None], resource: DescribeConfigsResource) -> Steps[None]:
    """Add the requested keys of ``resource``, None for all, to those of an earlier entry for the same resource."""
    place = (resource.resource_type, resource.resource_name)
    keys = wanted.get(place, _NO_KEYS)
    if not resource.configuration_keys or keys is None:
        wanted[place] = None
    else:
        keys = wanted[place] = keys or set()
        for start in range(0, len(resource.configuration_keys), _KEYS_PER_STEP):
            keys.update(resource.configuration_keys[start : start + _KEYS_PER_STEP])
            yield None
    yield None


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource_type: int, name: str, wanted: set[str] | None
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(error_message="", resource_type=resource_type, resource_name=name)
    try:
        require_on_resource(context, Operation.DESCRIBE_CONFIGS, resource_type, name)
        described = _values(context, resource_type, name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    result.configs = [_entry(each, request) for each in described if wanted is None or each.name in wanted]
    return result


def _values(context: RequestContext, resource_type: int, name: str) -> list[DescribedConfig]:
    image = context.services.metadata.image
    if resource_type == ConfigResourceType.TOPIC:
        reason = invalid_topic_name_reason(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(broker_layers(context), image.configs.of_topic(name))
    if resource_type == ConfigResourceType.BROKER:
        if not name:
            return describe_broker_defaults(image.configs.of(EVERY_BROKER))
        _check_broker_id(context, name)
        return describe_broker(broker_layers(context))
    if resource_type in _NAME_MISSING:
        if not name:
            raise InvalidRequestError(_NAME_MISSING[resource_type])
        own = image.configs.of(ConfigResource(ConfigResourceType(resource_type), name))
        is_group = resource_type == ConfigResourceType.GROUP
        return describe_group(broker_layers(context), own) if is_group else describe_client_metrics(own)
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        raise InvalidRequestError("This release does not describe its loggers.")
    raise InvalidRequestError(f"Unsupported resource type: {resource_type}")


def _check_broker_id(context: RequestContext, name: str) -> None:
    node_id = context.services.config.node_id
    try:
        wanted = int(name)
    except ValueError:
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {cut_name(name)}") from None
    if wanted != node_id:
        raise InvalidRequestError(
            f"Unexpected broker id, expected {node_id} or empty string, but received {cut_name(name)}"
        )


def _entry(described: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.is_sensitive,
        synonyms=[_synonym(each) for each in described.synonyms] if request.include_synonyms else [],
        config_type=described.type or 0,
        documentation=described.documentation if request.include_documentation else None,
    )


def _synonym(synonym: ConfigSynonym) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
