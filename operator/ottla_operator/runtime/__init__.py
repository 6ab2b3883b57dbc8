"""The operator's process: leader election, watches, the queue of dirty keys, workers, probes and metrics.

Terms:
- *Key*: kind, namespace and name of an object. A *dirty* key waits for a worker (`work_queue`); keys of one cluster
  form a *group*, of which one worker at a time takes keys.
- *Mark*: a watch event makes its key dirty and does nothing else (`handlers`); a lost or repeated event costs only
  time.
- *Resync*: the periodic listing that makes every key dirty (`workers`).
- *Leadership*: the replicas of one installation elect a leader by a Lease (`election` decides, `leadership` calls).
- *Ownership*: of several installations one owns a Cluster, by ``status.operator`` (`cluster_ownership`).
- *Member*: a Topic or User of a Cluster; `members` indexes them by cluster and by the topic or principal they claim.

Invariants: no object is reconciled by two workers at a time; nothing is written without leadership, which ends by the
leader's own monotonic clock before another candidate may take over; nothing is reconciled before the first listing.

Start with `work_queue` and `workers`, then `watches`; the process itself is put together in `main`.

Surprising: kopf runs in a thread with its own event loop, because at its end it cancels every task of its loop; it is
restarted when a CRD is deleted. Topics and Users of one cluster are reconciled in batches, which shrink after failures.
"""
