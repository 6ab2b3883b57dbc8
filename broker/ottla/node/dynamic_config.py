"""Broker settings that change while the node runs: laid over ``server.properties`` and handed to who acts on them.

Topics' inherited settings (log.*, message.max.bytes ...) are not here: the replica manager resolves them anew itself.
Source: KIP-226; DynamicBrokerConfig of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable

from ottla.config.key import InvalidConfigError
from ottla.config.node_config import NodeConfig
from ottla.config.resource_type import ConfigResourceType
from ottla.metadata.configs import EVERY_BROKER, ConfigResource
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


class DynamicConfigPublisher:
    """A publisher of the metadata loader; ``on_change`` gets the node's settings whenever they differ."""

    def __init__(self, static: NodeConfig, on_change: Callable[[NodeConfig], None]) -> None:
        self._static = static
        self._mine = ConfigResource(ConfigResourceType.BROKER, str(static.node_id))
        self._on_change = on_change

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if EVERY_BROKER not in delta.configs.changes and self._mine not in delta.configs.changes:
            return
        dynamic = {**image.configs.of(EVERY_BROKER), **image.configs.of(self._mine)}
        try:
            self._on_change(self._static.with_dynamic(dynamic))
        except InvalidConfigError as error:
            # The controller checks values before it takes them; one that another release took is left out.
            logger.warning("a dynamic setting of this broker cannot be used, the node keeps what it has: %s", error)
