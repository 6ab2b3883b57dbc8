"""Client metrics (KIP-714): which clients push which metrics, and what they pushed.

- `subscriptions`: the subscriptions in the metadata, and the combined one of a client.
- `instance`: the state machine of one client instance: push interval, throttling, termination.
- `manager`: the instances of this node, bounded; the metadata publisher of subscriptions.
- `otlp`: the decoder of pushes (OpenTelemetry's MetricsData), in slices.
- `pushed`: the series of one client, as counters and gauges, and the log line about a push.

A broker takes part only if `ottla.client.metrics.receivers` names a receiver, as Kafka's does only with a plug-in that
receives client metrics; otherwise ApiVersions does not list the two APIs and clients do not push.
"""
