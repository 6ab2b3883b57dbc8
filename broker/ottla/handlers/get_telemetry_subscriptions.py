"""GetTelemetrySubscriptions (api key 71, v0): the client metrics that the cluster requests (KIP-714).

No permission is needed, as in Kafka. Listed by ApiVersions and served only if this node has a receiver of client
metrics.
Source: ClientMetricsManager.processGetTelemetrySubscriptionRequest of Apache Kafka 4.3.
"""

from ottla.client_metrics.instance import ACCEPTED_COMPRESSION
from ottla.errors import ErrorCode
from ottla.handlers.api import CloseConnection, RequestContext, serves
from ottla.handlers.client_attributes import find_instance, rejection_without_receivers
from ottla.purgatory.steps import Steps
from ottla.types import ZERO_UUID
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


@serves(api_key=71, versions=range(0, 1))
def get_telemetry_subscriptions(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> Steps[GetTelemetrySubscriptionsResponse | CloseConnection]:
    """Return the client's combined subscription; a client without an instance id gets one."""
    rejection = rejection_without_receivers(context)
    if rejection is not None:
        return rejection
    manager = context.services.client_metrics
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = manager.new_instance_id()
    instance = yield from find_instance(context, instance_id)
    error = instance.on_get(context.services.clock.monotonic_ms())
    manager.count(error)
    if error is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION),
        push_interval_ms=instance.subscription.interval_ms,
        telemetry_max_bytes=manager.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )
