"""`DynamicConfigPublisher`: applies broker settings that change while the node runs on top of ``server.properties``.

Topics' inherited settings (log.*, message.max.bytes ...) are not here: the replica manager resolves them itself.
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
    """Publisher of the metadata loader; ``on_change`` receives the node's settings whenever they change."""

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
            # The controller validates values before it accepts them; another release may have accepted other values.
            logger.warning("a dynamic setting cannot be used, the broker keeps its current settings: %s", error)
