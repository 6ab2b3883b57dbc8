"""What a node, a topic and a group may be told: every key of Kafka 4.3, its bounds, and the values read from it.

Reading order:

- `key`: one row of a table, and how a text becomes a value, with Kafka's own error texts.
- `broker_keys` (tables in `tables/`), `topic_keys`, `group_keys`, `client_metrics_keys`: the rows.
- `properties`: the syntax of ``server.properties``.
- `listeners`: listeners, security protocols, quorum voters.
- `node_config`: `NodeConfig`, a whole ``server.properties``, checked; what the rest of the node reads.
- `layers`: default <- static broker <- dynamic default <- dynamic broker <- topic, and the answer to DescribeConfigs.
- `alter`: what AlterConfigs and IncrementalAlterConfigs may change, and the next values.
"""
