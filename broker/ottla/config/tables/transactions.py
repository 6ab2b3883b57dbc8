"""Transactions. The format of the rows is `ottla.config.table`'s."""

ROWS = """
add.partitions.to.txn.retry.backoff.max.ms INT 100 0.. ms read-only acted-on
    Longest rest before a partition is verified again.
add.partitions.to.txn.retry.backoff.ms INT 20 1.. ms read-only acted-on
    First rest before a partition is verified again.
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 1.. ms read-only known
    How often overdue transactions are aborted.
transaction.max.timeout.ms INT 900000 1.. ms read-only acted-on
    Longest transaction time-out that a producer may request.
transaction.partition.verification.enable BOOLEAN true - - cluster-wide acted-on
    Check with the coordinator before a transactional append.
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 1.. ms read-only acted-on
    How often idle transactional ids are expired.
transaction.state.log.load.buffer.size INT 5242880 1.. bytes read-only known
    Read size of the transaction coordinator when it loads.
transaction.state.log.min.isr INT 2 1.. - read-only acted-on
    In-sync replicas that __transaction_state needs.
transaction.state.log.num.partitions INT 50 1.. - read-only acted-on
    Partitions of __transaction_state.
transaction.state.log.replication.factor SHORT 3 1.. - read-only acted-on
    Replicas of __transaction_state.
transaction.state.log.segment.bytes INT 104857600 1.. bytes read-only acted-on
    Segment size of __transaction_state.
transaction.two.phase.commit.enable BOOLEAN false - - read-only rejected
    Prepared transactions would not survive as guaranteed: two-phase commit is not in this release.
transactional.id.expiration.ms INT 604800000 1.. ms read-only acted-on
    An idle transactional id expires after this long.
"""
