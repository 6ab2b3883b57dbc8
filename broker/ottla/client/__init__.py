"""A small asynchronous Kafka client on the broker's own codec: for the command line, the operator, the console, tests.

Works against any Kafka from 2.4 on. Reading order: `connection` (one socket), `cluster` (metadata, leaders, retries),
then `admin`, `producer` and `consumer` on top. `group_reader` is what the members of both group protocols share:
`group_member` (classic) and `consumer_protocol_member` with its state in `consumer_membership` (KIP-848). Failures are

- `ottla.errors.KafkaError`: a broker returned an error; ``code`` and ``message`` are the broker's;
- `ottla.client.errors.ClientError`: no broker responded in time; the message has the address and what to try.
"""
