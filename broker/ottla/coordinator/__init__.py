"""The parts that every coordinator needs: loading, decide/write/replay, commit waits, timers, resignation.

Modelled on Kafka's coordinator-common module. `groups/` is its first user; the transaction coordinator and share state
come next. It knows neither groups nor replicas.

**Terms.** A *coordinator* keeps state in an *internal topic* (``__consumer_offsets``). A key (group id, transactional
id) belongs to one partition of it, by Java's hash; the leader of that partition is the key's coordinator. A *shard* is
the state machine of one led partition, a *context* what the runtime keeps for it. An *operation* is a function from the
shard and a request to a *result*: records and a response.

**Start reading** at `shard.py` (what a coordinator supplies), then `context.py` (one partition), then `runtime.py` (all
led partitions, and how a service runs an operation). The smallest coordinator is in the tests, `conftest.py`.

======================= ================================================================================================
`runtime.py`            partitions by key, elections, ticks, operations
`context.py`            one led partition: load, write, replay, close
`loader.py`             the log, replayed in slices of 500 records: other partitions are served meanwhile
`skipped_records.py`    the corrupt records that a load has skipped, for one line of the log
`commit_waits.py`       responses that wait for the high watermark, with a time-out
`timers.py`             deadlines by key; a heartbeat that postpones one costs no heap operation
`publisher.py`          from the metadata to elections and resignations
`replicated_log.py`     the internal topic on this node's replicas
`transactions.py`       values for writes in a producer's transaction, and for the marker that ends it
`result.py` `serde.py` `settings.py` `log.py` `append_errors.py` `partitioner.py`    values and protocols between those
======================= ================================================================================================

**Invariants**

1. State that a record stores changes by `replay` only: loading, writing and a restart cannot disagree.
2. A response is released when its own records, or the last append before it, are committed: no client sees what a new
   leader may not have. A read waits like a write. One that must be latest fails where the followers have not
   confirmed lately that this node leads (decision 14): a replaced coordinator does not know of its successor.
3. A write that the log rejects at once changes nothing. One that fails later closes the context: memory is ahead of the
   log then, and only a reload makes them agree.
4. An end-of-transaction marker changes log and shard in one append, and the shard never otherwise ends a transaction.
5. A wait always completes: with the commit, after the time-out, or with NOT_COORDINATOR when the context closes.
6. A resignation of an older leader epoch than the one that is served is ignored; metadata may arrive out of order with
   the removal of a replica.

**Surprises.** There is no timeline of versions as in Kafka: see decision 2, `broker/decisions`. A shard may be
ahead of its log on purpose (``is_replayed=False``): classic groups are. A leader that lost a write reloads once per
second, because no election comes for as long as it leads.
"""
