"""Transactions, and the producer ids of all producers.

**Terms.** A *producer id* is what a leader recognizes the duplicates of an idempotent producer by; its *epoch* fences
older instances. The controller hands out ids in *blocks* of a thousand to brokers. A *transactional id* survives its
producer's restarts; the leader of its partition of ``__transaction_state`` is its *coordinator*. A *marker* is the
control batch that ends a transaction in one partition. ``transaction.version`` 2 gives each transaction an epoch of its
own (KIP-890).

**Start reading** at `state.py` (states and transitions) and `metadata.py` (what each transition changes), then
`shard.py` (one partition of the topic) and `coordinator.py` (all that this node leads).

========================= ==============================================================================================
`initialize.py`           InitProducerId
`enlist.py`               AddPartitionsToTxn, AddOffsetsToTxn: the partitions of a transaction
`end.py`                  EndTxn
`new_producer_id.py`      operations that may need another producer id
`markers.py`              requests the markers from the leaders of the partitions
`log.py`                  records of ``__transaction_state``
`verifier.py`             the other side: a partition leader's requests to coordinators, before a transaction's first
                          batch; `append_attempt.py` and `offset_verification.py` use it
`known_errors.py`         errors that older clients do not know
`producer_ids.py`         producer ids from this node's blocks
========================= ==============================================================================================

**Invariants**

1. No producer id is handed out twice: a block belongs to one incarnation of one broker, and the rest of it is lost when
   that ends.
2. No marker is sent before the decision (PrepareCommit, PrepareAbort) is committed in the epoch of this leader: after
   an election, decisions are written again before their markers are sent.
3. The end of a transaction (CompleteCommit, CompleteAbort) is written when the leaders have written every marker.
4. Every decision comes to its end: what was rejected, or not committed in time, is repeated (`TransactionShard.check`).

**Surprises.** There is no pending state as in JVM Kafka: a transition counts as soon as it is appended, and its
response waits for the commit. A marker may be written twice; leaders accept that. The state PrepareEpochFence is never
used: fencing a producer and aborting its transaction are one record.
"""
