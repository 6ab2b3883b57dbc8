"""Whether streams groups (KIP-1071) are on: in this node's configuration and as a feature of the cluster.

Source: KafkaApis.isStreamsGroupProtocolEnabled of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext
from ottla.metadata.metadata_version import STREAMS_VERSION

_STREAMS = "streams"
_FIRST_LEVEL_WITH_STREAMS_GROUPS = 1


def are_streams_groups_enabled(context: RequestContext) -> bool:
    services = context.services
    is_configured = _STREAMS in services.config.group_coordinator_rebalance_protocols
    return is_configured and services.metadata.feature_level(STREAMS_VERSION) >= _FIRST_LEVEL_WITH_STREAMS_GROUPS
