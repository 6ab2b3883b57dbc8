"""Share groups and streams groups. The format: `ottla.config.table`."""

ROWS = """
group.share.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Rest between assignments of a share group.
group.share.assignors LIST simple list+ - read-only known
    Server-side assignors of share groups.
group.share.delivery.count.limit INT 5 2..10 - read-only acted-on
    How often a record is tried.
group.share.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Heartbeat of share group members.
group.share.initialize.retry.interval.ms INT 30000 1.. ms read-only acted-on unlisted
    Rest before share state is initialized again.
group.share.max.assignment.interval.ms INT 15000 0.. ms read-only acted-on
    Upper bound of a group's own value.
group.share.max.delivery.count.limit INT 10 5..25 - read-only acted-on
    Upper bound of a group's own value.
group.share.max.heartbeat.interval.ms INT 15000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.share.max.partition.max.record.locks INT 4000 2000..10000 - read-only acted-on
    Upper bound of a group's own value.
group.share.max.record.lock.duration.ms INT 60000 30000..3600000 ms read-only acted-on
    Upper bound of a group's own value.
group.share.max.session.timeout.ms INT 60000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.share.max.share.sessions INT 2000 1.. - read-only acted-on
    Share sessions that a broker remembers.
group.share.max.size INT 200 1..1000 - read-only acted-on
    Members of one share group.
group.share.min.assignment.interval.ms INT 0 0.. ms read-only acted-on
    Lower bound of a group's own value.
group.share.min.delivery.count.limit INT 2 2..5 - read-only acted-on
    Lower bound of a group's own value.
group.share.min.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.share.min.partition.max.record.locks INT 100 100..2000 - read-only acted-on
    Lower bound of a group's own value.
group.share.min.record.lock.duration.ms INT 15000 1000..30000 ms read-only acted-on
    Lower bound of a group's own value.
group.share.min.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.share.partition.max.record.locks INT 2000 100..10000 - read-only acted-on
    Records in flight of one share-partition.
group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister - - read-only known unlisted
    A Java class that keeps share state.
group.share.record.lock.duration.ms INT 30000 1000..3600000 ms read-only acted-on
    How long a member may hold a record.
group.share.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Silence after which a share group member is removed.
group.streams.assignment.interval.ms INT 1000 0.. ms cluster-wide acted-on
    Rest between assignments of a streams group.
group.streams.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Heartbeat of streams group members.
group.streams.initial.rebalance.delay.ms INT 3000 0.. ms read-only acted-on
    How long a new streams group waits for more members.
group.streams.max.assignment.interval.ms INT 15000 0.. ms read-only acted-on
    Upper bound of a group's own value.
group.streams.max.heartbeat.interval.ms INT 15000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.streams.max.session.timeout.ms INT 60000 1.. ms read-only acted-on
    Upper bound of a group's own value.
group.streams.max.size INT 2147483647 1.. - read-only acted-on
    Members of one streams group.
group.streams.max.standby.replicas INT 2 0.. - read-only acted-on
    Upper bound of a group's own value.
group.streams.min.assignment.interval.ms INT 0 0.. ms read-only acted-on
    Lower bound of a group's own value.
group.streams.min.heartbeat.interval.ms INT 5000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.streams.min.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Lower bound of a group's own value.
group.streams.num.standby.replicas INT 0 0.. - read-only acted-on
    Standby copies of a task.
group.streams.session.timeout.ms INT 45000 1.. ms read-only acted-on
    Silence after which a streams group member is removed.
share.coordinator.append.linger.ms INT -1 -1.. ms read-only known
    How long the share coordinator gathers records; ours writes at once.
share.coordinator.cached.buffer.max.bytes INT 1048588 524288.. bytes cluster-wide known
    Largest buffer that the share coordinator keeps.
share.coordinator.cold.partition.snapshot.interval.ms INT 300000 1.. ms read-only acted-on unlisted
    How often quiet share-partitions are snapshotted.
share.coordinator.load.buffer.size INT 5242880 1.. bytes read-only known
    Read size of the share coordinator when it loads.
share.coordinator.snapshot.update.records.per.snapshot INT 500 0..500 - read-only acted-on
    Updates between snapshots of share state.
share.coordinator.state.topic.compression.codec INT 0 - - read-only known
    Codec of __share_group_state.
share.coordinator.state.topic.min.isr SHORT 2 1.. - read-only acted-on
    In-sync replicas that __share_group_state needs.
share.coordinator.state.topic.num.partitions INT 50 1.. - read-only acted-on
    Partitions of __share_group_state.
share.coordinator.state.topic.prune.interval.ms INT 300000 1.. ms read-only acted-on unlisted
    How often old share state is dropped.
share.coordinator.state.topic.replication.factor SHORT 3 1.. - read-only acted-on
    Replicas of __share_group_state.
share.coordinator.state.topic.segment.bytes INT 104857600 1.. bytes read-only acted-on
    Segment size of __share_group_state.
share.coordinator.threads INT 1 1.. - read-only known
    Threads of the share coordinator.
share.coordinator.write.timeout.ms INT 5000 1.. ms read-only acted-on
    How long the share coordinator waits for its replicas.
share.fetch.purgatory.purge.interval.requests INT 1000 - - read-only known
    Kafka's purgatory housekeeping.
"""  # noqa: E501 - some of Kafka's defaults are long
