"""Topics, logs, replication and compaction. The format of the rows is `ottla.config.table`'s."""

ROWS = """
auto.create.topics.enable BOOLEAN true - - read-only acted-on
    Create a topic when a client requests one that does not exist.
auto.leader.rebalance.enable BOOLEAN true - - read-only acted-on
    Give leadership back to preferred replicas from time to time.
compression.gzip.level INT -1 1..9|-1 - cluster-wide acted-on
    Compression level of gzip if the broker compresses.
compression.lz4.level INT 9 1..17 - cluster-wide acted-on
    Compression level of lz4 if the broker compresses.
compression.type STRING producer uncompressed|zstd|lz4|snappy|gzip|producer - cluster-wide acted-on
    producer keeps batches as they come; any other re-encodes them.
compression.zstd.level INT 3 -131072..22 - cluster-wide acted-on
    Compression level of zstd if the broker compresses.
controller.socket.timeout.ms INT 30000 - ms read-only known
    Kafka's timeout for responses of controller channels.
cordoned.log.dirs LIST "" list - per-broker acted-on
    Those of log.dirs that take no new replicas, * for all; new topics avoid a broker without another directory.
default.replication.factor INT 1 - - read-only acted-on
    Replicas of a topic that is created without a replication factor.
delete.records.purgatory.purge.interval.requests INT 1 - - read-only known
    Kafka's purgatory housekeeping; ours needs none.
delete.topic.enable BOOLEAN true - - read-only acted-on
    Whether topics can be deleted.
fetch.max.bytes INT 57671680 1024.. bytes read-only acted-on
    Most record bytes in one Fetch response.
fetch.purgatory.purge.interval.requests INT 1000 - - read-only known
    Kafka's purgatory housekeeping; ours needs none.
leader.imbalance.check.interval.seconds LONG 300 1.. s read-only acted-on
    How often leadership is given back to preferred replicas.
log.cleaner.backoff.ms LONG 15000 0.. ms cluster-wide acted-on
    How long the cleaner waits if no log needs compaction.
log.cleaner.dedupe.buffer.size LONG 134217728 - bytes cluster-wide acted-on
    Most memory of the maps from keys to offsets, over all threads; 24 bytes per key.
log.cleaner.delete.retention.ms LONG 86400000 0.. ms cluster-wide acted-on
    The default of topics' delete.retention.ms.
log.cleaner.enable BOOLEAN true - - read-only acted-on
    Compact the logs of topics with cleanup.policy=compact.
log.cleaner.io.buffer.load.factor DOUBLE 0.9 - - cluster-wide acted-on
    Share of a map of keys that may be used.
log.cleaner.io.buffer.size INT 524288 0.. bytes cluster-wide acted-on
    Memory of the cleaner's reads and writes, over all threads.
log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 - bytes/s cluster-wide acted-on
    Most bytes that the cleaner reads and writes per second, over all threads.
log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 1.. ms cluster-wide acted-on
    The default of topics' max.compaction.lag.ms.
log.cleaner.min.cleanable.ratio DOUBLE 0.5 0..1 - cluster-wide acted-on
    The default of topics' min.cleanable.dirty.ratio.
log.cleaner.min.compaction.lag.ms LONG 0 0.. ms cluster-wide acted-on
    The default of topics' min.compaction.lag.ms.
log.cleaner.threads INT 1 0.. - cluster-wide acted-on
    How many logs are compacted at a time.
log.cleanup.policy LIST delete list:compact|delete - cluster-wide acted-on
    The default of topics' cleanup.policy.
log.dir LIST /tmp/kafka-logs list+ - read-only acted-on
    Where data lives when log.dirs is not set.
log.dir.failure.timeout.ms LONG 30000 1.. ms read-only known
    How long a broker with a failed directory waits for the controller to know before it stops.
log.dirs LIST - list+ - read-only acted-on
    Where data lives, comma separated.
log.flush.interval.messages LONG 9223372036854775807 1.. records cluster-wide acted-on
    fsync after this many records of a partition.
log.flush.interval.ms LONG - - ms cluster-wide acted-on
    fsync records at most this long after they were appended.
log.flush.offset.checkpoint.interval.ms INT 60000 0.. ms read-only acted-on
    How often recovery points are written.
log.flush.scheduler.interval.ms LONG 9223372036854775807 - ms read-only acted-on
    How often logs are checked for flushing.
log.flush.start.offset.checkpoint.interval.ms INT 60000 0.. ms read-only acted-on
    How often log start offsets are written.
log.index.interval.bytes INT 4096 0.. bytes cluster-wide acted-on
    Records between two index entries; more than 65536 counts as 65536.
log.index.size.max.bytes INT 10485760 4.. bytes cluster-wide acted-on
    Size of one index file.
log.initial.task.delay.ms LONG 30000 0.. ms read-only known unlisted
    Rest after start before the log manager's first tasks.
log.local.retention.bytes LONG -2 -2.. bytes cluster-wide known
    Local part of a tiered log; no tiers in this release.
log.local.retention.ms LONG -2 -2.. ms cluster-wide known
    Local part of a tiered log; no tiers in this release.
log.message.timestamp.after.max.ms LONG 3600000 0.. ms cluster-wide acted-on
    How far in the future a producer's timestamp may be.
log.message.timestamp.before.max.ms LONG 9223372036854775807 0.. ms cluster-wide acted-on
    How old a producer's timestamp may be.
log.message.timestamp.type STRING CreateTime CreateTime|LogAppendTime - cluster-wide acted-on
    Whether the producer or the broker stamps records.
log.preallocate BOOLEAN false - - cluster-wide known
    Reserve a new segment's bytes; our appends do not need it.
log.retention.bytes LONG -1 - bytes cluster-wide acted-on
    Keep at least this much of a partition; -1 everything.
log.retention.check.interval.ms LONG 300000 1.. ms read-only acted-on
    How often expired segments are searched for.
log.retention.hours INT 168 - h read-only acted-on
    log.retention.ms in hours, where neither ms nor minutes are set.
log.retention.minutes INT - - min read-only acted-on
    log.retention.ms in minutes, where ms is not set.
log.retention.ms LONG - - ms cluster-wide acted-on
    Keep records at least this long; -1 for ever.
log.roll.hours INT 168 1.. h read-only acted-on
    log.roll.ms in hours, where ms is not set.
log.roll.jitter.hours INT 0 0.. h read-only acted-on
    log.roll.jitter.ms in hours, where ms is not set.
log.roll.jitter.ms LONG - - ms cluster-wide acted-on
    Taken at random from log.roll.ms, so that not all segments roll at once.
log.roll.ms LONG - - ms cluster-wide acted-on
    A segment is rolled at this age even if it is not full.
log.segment.bytes INT 1073741824 1048576.. bytes cluster-wide acted-on
    Size at which a segment is rolled.
log.segment.delete.delay.ms LONG 60000 0.. ms cluster-wide acted-on
    A deleted segment keeps its bytes this long, for reads under way.
max.incremental.fetch.session.cache.slots INT 1000 0.. - read-only acted-on
    Fetch sessions in a broker's cache.
max.request.partition.size.limit INT 2000 1.. - read-only acted-on
    Partitions in one DescribeTopicPartitions response.
message.max.bytes INT 1048588 0.. bytes cluster-wide acted-on
    Largest record batch.
min.insync.replicas INT 1 1.. - cluster-wide acted-on
    In-sync replicas that acks=all needs.
num.partitions INT 1 1.. - read-only acted-on
    Partitions of a topic that is created without a number of partitions.
num.recovery.threads.per.data.dir INT 2 1.. - cluster-wide known
    Kafka's recovery threads; ours recovers on one.
num.replica.alter.log.dirs.threads INT - - - read-only acted-on
    Replicas that are moved between log directories at a time; by default one per directory.
num.replica.fetchers INT 1 1.. - cluster-wide acted-on
    Connections to each leader that a follower fetches on.
producer.id.expiration.check.interval.ms INT 600000 1.. ms read-only acted-on unlisted
    How often producers that have expired are removed.
producer.id.expiration.ms INT 86400000 1.. ms cluster-wide acted-on
    The state of an idempotent producer expires after this long without a record.
producer.purgatory.purge.interval.requests INT 1000 - - read-only known
    Kafka's purgatory housekeeping; ours needs none.
replica.fetch.backoff.ms INT 1000 0.. ms read-only acted-on
    Rest of a follower after a failed fetch.
replica.fetch.max.bytes INT 1048576 0.. bytes read-only acted-on
    Most bytes of a partition that a follower fetches at once.
replica.fetch.min.bytes INT 1 - bytes read-only acted-on
    A follower's fetch waits for this many bytes.
replica.fetch.response.max.bytes INT 10485760 0.. bytes read-only acted-on
    Most bytes that a follower fetches at once.
replica.fetch.wait.max.ms INT 500 - ms read-only acted-on
    A follower's fetch waits this long.
replica.high.watermark.checkpoint.interval.ms LONG 5000 - ms read-only acted-on
    How often high watermarks are written.
replica.lag.time.max.ms LONG 30000 - ms read-only acted-on
    A follower behind for longer leaves the in-sync replicas.
replica.selector.class STRING - - - read-only acted-on
    Empty, or RackAwareReplicaSelector by its full name: consumers may read from a replica in their rack.
replica.socket.receive.buffer.bytes INT 65536 - bytes read-only known
    Receive buffer of a follower's socket.
replica.socket.timeout.ms INT 30000 - ms read-only acted-on
    How long a follower waits for its leader's response.
unclean.leader.election.enable BOOLEAN false - - cluster-wide acted-on
    Elect a leader that is not in sync if no other replica can lead; loses records.
unclean.leader.election.interval.ms LONG 300000 1.. ms read-only acted-on unlisted
    How often unclean elections are tried.
"""
