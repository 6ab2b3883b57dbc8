"""Whether consumer groups (KIP-848), share groups (KIP-932) or streams groups (KIP-1071) are enabled.

Each of them is a feature of the cluster; consumer and streams groups also have to be listed in this node's
group.coordinator.rebalance.protocols.
Source: KafkaApis.isConsumerGroupProtocolEnabled, isShareGroupProtocolEnabled and isStreamsGroupProtocolEnabled of
Apache Kafka 4.3.
"""

from typing import Final

from ottla.handlers.api import RequestContext
from ottla.metadata.metadata_version import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION

_CONSUMER: Final = "consumer"
_STREAMS: Final = "streams"
_FIRST_LEVEL: Final = 1
"""Of each of the three features."""


def is_consumer_protocol_enabled(context: RequestContext) -> bool:
    return _is_configured(context, _CONSUMER) and _is_finalized(context, GROUP_VERSION)


def is_share_protocol_enabled(context: RequestContext) -> bool:
    return _is_finalized(context, SHARE_VERSION)


def is_streams_protocol_enabled(context: RequestContext) -> bool:
    return _is_configured(context, _STREAMS) and _is_finalized(context, STREAMS_VERSION)


def _is_configured(context: RequestContext, protocol: str) -> bool:
    return protocol in context.services.config.group_coordinator_rebalance_protocols


def _is_finalized(context: RequestContext, feature: str) -> bool:
    return context.services.metadata.feature_level(feature) >= _FIRST_LEVEL
