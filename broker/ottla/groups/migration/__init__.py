"""Online migration between classic and consumer groups (KIP-848), by ``group.consumer.migration.policy``.

An *upgrade* converts a classic group when a member of the consumer protocol joins it; its members stay as *classic
members* of the consumer group, which continue with JoinGroup, SyncGroup and Heartbeat: their generation is their member
epoch, and no leader among them assigns partitions. A *downgrade* converts a consumer group when the last member of the
consumer protocol goes and only classic members are left.

Invariants:

- A conversion is one record batch: whatever coordinator loads the log finds the old group or the new one.
- Until the log has taken that batch nothing has changed, the waiting requests of classic members included.
- A classic member gets and gives up partitions by the same steps as others (`consumer.reconciliation`); its JoinGroup
  is the heartbeat that reports what it owns.

Start reading at `upgrade` and `downgrade`, then `join` and `members`.
"""
