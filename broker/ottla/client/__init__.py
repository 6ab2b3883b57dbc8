"""A small asynchronous Kafka client on the broker's own codec: for the command line, the operator, the console, tests.

Works against any Kafka from 2.4 on. Reading order: `connection` (one socket), `cluster` (who leads what, retries),
then `admin`, `producer`, `consumer` and `group_member` on top. Failures are

- `ottla.errors.KafkaError`: a broker understood and refused; ``code`` and ``message`` are the broker's;
- `ottla.client.errors.ClientError`: nobody answered, or not in time; the message says where and what to try.
"""
