"""Configuration of nodes, topics and groups: every key of Kafka 4.3, its bounds, and the values read from it.

Reading order:

- `key`: one row of a table, and the parsing of a value, with Kafka's own error messages.
- `broker_keys` (tables in `tables/`), `topic_keys`, `group_keys`, `client_metrics_keys`: the rows.
- `properties`: the syntax of ``server.properties``.
- `listeners`: listeners, security protocols, quorum voters.
- `node_config`: `NodeConfig`, a whole validated ``server.properties``; the rest of the node reads this.
- `layers`: default <- static broker <- dynamic default <- dynamic broker <- topic, and the results of DescribeConfigs.
- `alter`: which changes AlterConfigs and IncrementalAlterConfigs may make, and the resulting values.
"""
