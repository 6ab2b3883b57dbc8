"""Tiered storage: known, not served in this release. The format of the rows is `ottla.config.table`'s."""

ROWS = """
follower.fetch.last.tiered.offset.enable BOOLEAN false - - cluster-wide known
    A new follower starts at the tiered offset.
remote.fetch.max.wait.ms INT 500 1.. ms cluster-wide known
    Wait for a read from the remote tier.
remote.list.offsets.request.timeout.ms LONG 30000 1.. ms cluster-wide known
    Wait for an offset from the remote tier.
remote.log.index.file.cache.total.size.bytes LONG 1073741824 1.. bytes cluster-wide known
    Size of the cache for indexes of remote segments.
remote.log.index.file.cache.ttl.ms LONG 900000 -1.. ms read-only known unlisted
    Life of a cached index of a remote segment.
remote.log.manager.copier.thread.pool.size INT 10 1.. - cluster-wide known
    Threads that copy segments away.
remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 1.. bytes/s cluster-wide known
    Speed limit of copies to the remote tier.
remote.log.manager.copy.quota.window.num INT 11 1.. - read-only known
    Samples of that limit.
remote.log.manager.copy.quota.window.size.seconds INT 1 1.. s read-only known
    Length of one such sample.
remote.log.manager.expiration.thread.pool.size INT 10 1.. - cluster-wide known
    Threads that expire remote segments.
remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 1.. bytes/s cluster-wide known
    Speed limit of reads from the remote tier.
remote.log.manager.fetch.quota.window.num INT 11 1.. - read-only known
    Samples of that limit.
remote.log.manager.fetch.quota.window.size.seconds INT 1 1.. s read-only known
    Length of one such sample.
remote.log.manager.follower.thread.pool.size INT 2 1.. - cluster-wide known
    Threads of followers of remote logs.
remote.log.manager.task.interval.ms LONG 30000 1.. ms read-only known
    How often remote work is looked for.
remote.log.manager.task.retry.backoff.max.ms LONG 30000 1.. ms read-only known unlisted
    Longest rest after failed remote work.
remote.log.manager.task.retry.backoff.ms LONG 500 1.. ms read-only known unlisted
    First rest after failed remote work.
remote.log.manager.task.retry.jitter DOUBLE 0.2 0..0.5 - read-only known unlisted
    Jitter of those backoffs.
remote.log.manager.thread.pool.size INT 2 1.. - read-only known
    Threads of the remote log manager.
remote.log.metadata.custom.metadata.max.bytes INT 128 0.. bytes read-only known
    Largest custom metadata of a remote segment.
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager text+ - read-only known
    A Java class that keeps remote metadata.
remote.log.metadata.manager.class.path STRING - - - read-only known
    Where that class is found.
remote.log.metadata.manager.impl.prefix STRING rlmm.config. text+ - read-only known
    Prefix of that class's keys.
remote.log.metadata.manager.listener.name STRING - text+ - read-only known
    Listener that that class uses.
remote.log.reader.max.pending.tasks INT 100 1.. - read-only known
    Remote reads that may wait.
remote.log.reader.threads INT 10 1.. - cluster-wide known
    Threads that read from the remote tier.
remote.log.storage.manager.class.name STRING - text+ - read-only known
    A Java class that stores remote segments.
remote.log.storage.manager.class.path STRING - - - read-only known
    Where that class is found.
remote.log.storage.manager.impl.prefix STRING rsm.config. text+ - read-only known
    Prefix of that class's keys.
remote.log.storage.system.enable BOOLEAN false - - read-only rejected
    Tiered storage is not in this release: segments that topics hand to the remote tier would never get there.
"""  # noqa: E501 - some of Kafka's defaults are long
