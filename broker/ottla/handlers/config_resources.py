"""What the config APIs share: which layers a broker has, and which resources this node may answer for."""

from ottla.config.layers import BrokerLayers
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext
from ottla.metadata.configs import EVERY_BROKER, ConfigResource, ConfigResourceType


def broker_layers(context: RequestContext) -> BrokerLayers:
    """Return this broker's static and dynamic values."""
    config = context.services.config
    configs = context.services.metadata.image.configs
    return BrokerLayers(
        static=config.originals,
        dynamic_default=configs.of(EVERY_BROKER),
        dynamic_broker=configs.of(ConfigResource(ConfigResourceType.BROKER, str(config.node_id))),
    )


def check_alterable(context: RequestContext, resource_type: int, name: str) -> None:
    """Refuse what must be asked of another broker, or nobody can change.

    Raises:
        KafkaError: INVALID_REQUEST, with Kafka's words.
    """
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "This release's log levels cannot be changed while it runs: restart with others."
        )
    if resource_type == ConfigResourceType.BROKER and name:
        node_id = context.services.config.node_id
        try:
            wanted = int(name)
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
        if wanted != node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
            )
