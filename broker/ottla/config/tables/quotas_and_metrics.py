"""Quotas, metrics and telemetry. The format of the rows is `ottla.config.table`'s."""

ROWS = """
alter.log.dirs.replication.quota.window.num INT 11 1.. - read-only acted-on
    Samples of the quota for moves between directories.
alter.log.dirs.replication.quota.window.size.seconds INT 1 1.. s read-only acted-on
    Length of one such sample.
controller.quota.window.num INT 11 1.. - read-only acted-on
    Samples of the quota for topic changes.
controller.quota.window.size.seconds INT 1 1.. s read-only acted-on
    Length of one such sample.
follower.replication.throttled.rate LONG 9223372036854775807 0.. bytes/s cluster-wide acted-on unlisted
    Speed limit of throttled followers.
kafka.metrics.polling.interval.secs INT 10 1.. s read-only known
    Kafka's old metrics reporters.
kafka.metrics.reporters LIST "" list - read-only known
    Kafka's old metrics reporters; metrics are at /metrics here.
leader.replication.throttled.rate LONG 9223372036854775807 0.. bytes/s cluster-wide acted-on unlisted
    Speed limit of throttled leaders.
metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter list - cluster-wide known
    Java metrics reporters; metrics are at /metrics here.
metrics.num.samples INT 2 1.. - read-only known
    Samples of a Java metric.
metrics.recording.level STRING INFO - - read-only known
    Which Java metrics are kept.
metrics.sample.window.ms LONG 30000 1.. ms read-only known
    Length of a sample of a Java metric.
quota.window.num INT 11 1.. - read-only acted-on
    Samples of a client quota.
quota.window.size.seconds INT 1 1.. s read-only acted-on
    Length of one such sample.
replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 0.. bytes/s cluster-wide acted-on unlisted
    Speed limit of moves between directories.
replication.quota.window.num INT 11 1.. - read-only acted-on
    Samples of the replication quota.
replication.quota.window.size.seconds INT 1 1.. s read-only acted-on
    Length of one such sample.
telemetry.max.bytes INT 1048576 1.. bytes read-only acted-on
    Largest push of client metrics, compressed and decompressed.
"""
