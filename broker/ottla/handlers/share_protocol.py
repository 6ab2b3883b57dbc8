"""Whether share groups (KIP-932) are on: as a feature of the cluster.

Source: KafkaApis.isShareGroupProtocolEnabled of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext
from ottla.metadata.metadata_version import SHARE_VERSION

_FIRST_LEVEL_WITH_SHARE_GROUPS = 1


def are_share_groups_enabled(context: RequestContext) -> bool:
    return context.services.metadata.feature_level(SHARE_VERSION) >= _FIRST_LEVEL_WITH_SHARE_GROUPS
