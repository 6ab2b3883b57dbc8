"""UpdateFeatures (api key 57, v0-v2): raise or lower finalized feature levels.

v1 upgrade types and validate_only (KIP-778); v2 no results per feature. Decided by `ottla.controller.features`.
Source: UpdateFeaturesRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.update_features import UpdateFeaturesRequest


@serves(api_key=57, versions=range(0, 3), has_few_entries=True)
def update_features(context: RequestContext, request: UpdateFeaturesRequest) -> Delayed[Message]:
    """Forward the request to the active controller."""
    return forward_to_controller(context, request, requires=Operation.ALTER)
