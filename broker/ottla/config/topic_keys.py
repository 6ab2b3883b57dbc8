"""Every key of a topic that Kafka 4.3 knows, and the broker's keys that a topic inherits from.

`SYNONYMS` gives, per topic key, the broker's keys in the order in which they win, each with what turns its value into
the topic key's unit. Source: LogConfig, ServerTopicConfigSynonyms.
"""

from ottla.config.key import ConfigKey
from ottla.config.table import read_table

ROWS = """
cleanup.policy LIST delete list:compact|delete - cluster-wide acted-on
    delete drops old segments, compact keeps the last record of each key; an empty list keeps everything.
compression.gzip.level INT -1 1..9|-1 - cluster-wide acted-on
    Compression level of gzip if the broker compresses.
compression.lz4.level INT 9 1..17 - cluster-wide acted-on
    Compression level of lz4 if the broker compresses.
compression.type STRING producer uncompressed|zstd|lz4|snappy|gzip|producer - cluster-wide acted-on
    producer keeps batches as they come; any other re-encodes them.
compression.zstd.level INT 3 -131072..22 - cluster-wide acted-on
    Compression level of zstd if the broker compresses.
delete.retention.ms LONG 86400000 0.. ms cluster-wide acted-on
    How long compaction keeps tombstones and markers of transactions after it has first read them.
file.delete.delay.ms LONG 60000 0.. ms cluster-wide acted-on
    A deleted segment keeps its bytes this long, for reads under way.
flush.messages LONG 9223372036854775807 1.. records cluster-wide acted-on
    fsync after this many records.
flush.ms LONG 9223372036854775807 0.. ms cluster-wide acted-on
    fsync records at most this long after they were appended.
follower.replication.throttled.replicas LIST "" replicas - cluster-wide acted-on
    Followers whose fetching is slowed down, as partition:broker,... or *.
index.interval.bytes INT 4096 0.. bytes cluster-wide acted-on
    Records between two index entries; more than 65536 counts as 65536.
internal.segment.bytes INT - - bytes cluster-wide acted-on unlisted
    For tests: segment.bytes below its lower bound.
leader.replication.throttled.replicas LIST "" replicas - cluster-wide acted-on
    Leaders whose followers are slowed down, as partition:broker,... or *.
local.retention.bytes LONG -2 -2.. bytes cluster-wide known
    Local part of a tiered log; no tiers in this release.
local.retention.ms LONG -2 -2.. ms cluster-wide known
    Local part of a tiered log; no tiers in this release.
max.compaction.lag.ms LONG 9223372036854775807 1.. ms cluster-wide acted-on
    Records older than this are compacted whatever the ratio.
max.message.bytes INT 1048588 0.. bytes cluster-wide acted-on
    Largest record batch.
message.timestamp.after.max.ms LONG 3600000 0.. ms cluster-wide acted-on
    How far in the future a producer's timestamp may be.
message.timestamp.before.max.ms LONG 9223372036854775807 0.. ms cluster-wide acted-on
    How old a producer's timestamp may be.
message.timestamp.type STRING CreateTime CreateTime|LogAppendTime - cluster-wide acted-on
    Whether the producer or the broker stamps records.
min.cleanable.dirty.ratio DOUBLE 0.5 0..1 - cluster-wide acted-on
    Share of the log that must be uncompacted before compaction runs.
min.compaction.lag.ms LONG 0 0.. ms cluster-wide acted-on
    Records younger than this are not compacted.
min.insync.replicas INT 1 1.. - cluster-wide acted-on
    In-sync replicas that acks=all needs.
ottla.acks.fsync BOOLEAN false - - cluster-wide acted-on unlisted
    Every in-sync replica confirms a record only once it is on stable storage; one fsync serves all that wait.
preallocate BOOLEAN false - - cluster-wide known
    Reserve a new segment's bytes; our appends do not need it.
remote.log.copy.disable BOOLEAN false - - cluster-wide known
    Stop copying segments to the remote tier; there is none in this release.
remote.log.delete.on.disable BOOLEAN false - - cluster-wide known
    Delete remote segments when the tier is turned off; there is none in this release.
remote.storage.enable BOOLEAN false - - cluster-wide rejected
    Tiered storage is not in this release: segments would never reach the remote tier.
retention.bytes LONG -1 - bytes cluster-wide acted-on
    Keep at least this much of a partition; -1 everything.
retention.ms LONG 604800000 -1.. ms cluster-wide acted-on
    Keep records at least this long; -1 for ever.
segment.bytes INT 1073741824 1048576.. bytes cluster-wide acted-on
    Size at which a segment is rolled.
segment.index.bytes INT 10485760 4.. bytes cluster-wide acted-on
    Room for one index file.
segment.jitter.ms LONG 0 0.. ms cluster-wide acted-on
    Taken at random from segment.ms, so that not all segments roll at once.
segment.ms LONG 604800000 1.. ms cluster-wide acted-on
    A segment is rolled at this age even if it is not full.
unclean.leader.election.enable BOOLEAN false - - cluster-wide acted-on
    Elect a leader that is not in sync if no other replica can lead; loses records.
"""

TOPIC_KEYS: dict[str, ConfigKey] = read_table(ROWS)

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

# topic key -> ((broker key, its unit in the topic key's unit), ...), the first that is set wins
SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "ottla.acks.fsync": (("ottla.acks.fsync", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
