"""ListConfigResources (api key 74, v0-v1): list the resources that have configuration (KIP-1142).

v0 only client metrics subscriptions; v1 the requested types, or all. Not done: loggers.
Source: KafkaApis.handleListConfigResources of Apache Kafka 4.3.
"""

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_RESOURCES_PER_STEP = 64
_TYPES = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)
_KNOWN_TYPES = frozenset((*_TYPES, ConfigResourceType.BROKER_LOGGER))


@serves(api_key=74, versions=range(0, 2))
def list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> Steps[ListConfigResourcesResponse]:
    """List all brokers and topics, and groups and subscriptions with settings."""
    context.require_on_cluster(Operation.DESCRIBE_CONFIGS)
    if context.api_version == 0:
        wanted: tuple[int, ...] = (ConfigResourceType.CLIENT_METRICS,)
    else:
        wanted = tuple(dict.fromkeys(request.resource_types)) or _TYPES
    if not _KNOWN_TYPES.issuperset(wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources: list[ConfigResource] = []
    for resource_type in wanted:
        for name in _names(context, resource_type):
            resources.append(ConfigResource(resource_name=name, resource_type=resource_type))
            if len(resources) % _RESOURCES_PER_STEP == 0:
                yield None
    return ListConfigResourcesResponse(config_resources=resources)


def _names(context: RequestContext, resource_type: int) -> list[str]:
    image = context.services.metadata.image
    if resource_type == ConfigResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if resource_type == ConfigResourceType.BROKER:
        return [str(broker_id) for broker_id, broker in sorted(image.cluster.brokers.items()) if not broker.is_fenced]
    return sorted(name for kind, name in image.configs.resources if kind == resource_type)
