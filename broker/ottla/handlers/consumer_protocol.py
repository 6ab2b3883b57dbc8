"""Whether the consumer protocol (KIP-848) is on: in this node's configuration and as a feature of the cluster.

Source: KafkaApis.isConsumerGroupProtocolEnabled of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext
from ottla.metadata.metadata_version import GROUP_VERSION

_CONSUMER = "consumer"
_FIRST_LEVEL_WITH_CONSUMER_GROUPS = 1


def is_consumer_protocol_enabled(context: RequestContext) -> bool:
    services = context.services
    is_configured = _CONSUMER in services.config.group_coordinator_rebalance_protocols
    return is_configured and services.metadata.feature_level(GROUP_VERSION) >= _FIRST_LEVEL_WITH_CONSUMER_GROUPS
