"""Groups and their offsets. The format of the rows is `ottla.config.table`'s."""

ROWS = """
group.consumer.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Rest between assignments of a consumer group (KIP-848).
group.consumer.assignors LIST uniform,range list+ - read-only acted-on
    Server-side assignors (KIP-848).
group.consumer.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Heartbeat interval of consumers (KIP-848).
group.consumer.max.assignment.interval.ms INT 15000 0.. ms read-only acted-on
    Upper bound of a group's own value.
group.consumer.max.heartbeat.interval.ms INT 15000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.consumer.max.session.timeout.ms INT 60000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.consumer.max.size INT 2147483647 1.. - read-only acted-on
    Members of one consumer group (KIP-848).
group.consumer.migration.policy STRING bidirectional i:DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL - read-only acted-on
    Which way a group with members may change its protocol (KIP-848).
group.consumer.min.assignment.interval.ms INT 0 0.. ms read-only acted-on
    Lower bound of a group's own value.
group.consumer.min.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.consumer.min.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.consumer.regex.refresh.interval.ms INT 600000 10000.. ms read-only acted-on unlisted
    How often subscribed patterns are resolved again.
group.consumer.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Silence after which a consumer is removed (KIP-848).
group.coordinator.append.linger.ms INT -1 -1.. ms read-only known
    How long the coordinator gathers records; ours writes at once.
group.coordinator.background.threads INT 2 1.. - read-only known
    Kafka's threads for regular expressions.
group.coordinator.cached.buffer.max.bytes INT 1048588 524288.. bytes cluster-wide known
    Largest buffer that Kafka's coordinator keeps.
group.coordinator.rebalance.protocols LIST classic,consumer,streams list+:consumer|classic|share|streams - read-only acted-on
    Which group protocols are on; classic groups always are.
group.coordinator.threads INT 4 1.. - read-only known
    Kafka's coordinator threads.
group.initial.rebalance.delay.ms INT 3000 - ms read-only acted-on
    How long a new group waits for more members.
group.max.session.timeout.ms INT 1800000 - ms read-only acted-on
    Longest session timeout that a member may request.
group.max.size INT 2147483647 1.. - read-only acted-on
    Members of one classic group.
group.min.session.timeout.ms INT 6000 - ms read-only acted-on
    Shortest session timeout that a member may request.
offset.metadata.max.bytes INT 4096 - bytes read-only acted-on
    Longest metadata of a committed offset.
offsets.commit.timeout.ms INT 5000 1.. ms read-only acted-on
    How long a commit waits for its replicas.
offsets.load.buffer.size INT 5242880 1.. bytes read-only known
    Read size of Kafka's coordinator when it loads.
offsets.retention.check.interval.ms LONG 600000 1.. ms read-only acted-on
    How often expired offsets are searched for.
offsets.retention.minutes INT 10080 1.. min read-only acted-on
    Offsets of an empty group are dropped after this long.
offsets.topic.compression.codec INT 0 - - read-only known
    Codec of batches of offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.topic.num.partitions INT 50 1.. - read-only acted-on
    Partitions of __consumer_offsets; never change it later.
offsets.topic.replication.factor SHORT 3 1.. - read-only acted-on
    Replicas of __consumer_offsets; its creation waits for so many brokers.
offsets.topic.segment.bytes INT 104857600 1.. bytes read-only acted-on
    Segment size of __consumer_offsets.
"""  # noqa: E501 - some of Kafka's defaults are long
