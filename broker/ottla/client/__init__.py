"""A small asynchronous Kafka client on the broker's own codec: for the command line, the operator, the console, tests.

Works against any Kafka from 2.4 on. Reading order: `connection` (one socket), `cluster` (metadata, leaders, retries),
then `admin`, `producer` and `consumer` on top. `group_reader` is what members of consumer groups have in common:
`group_member` (classic) and `consumer_protocol_member` (KIP-848); `share_consumer` is a member of a share group
(KIP-932). `membership` and `heartbeats` are for members of the last two kinds. Failures are

- `ottla.errors.KafkaError`: a broker returned an error; ``code`` and ``message`` are the broker's;
- `ottla.client.errors.ClientError`: no broker responded in time; the message has the address and what to try.
"""
