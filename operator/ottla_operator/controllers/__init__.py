"""Reconcilers: one per kind, the executor of plans, and the status of objects.

Terms:
- *Reconciliation*: observe, plan, execute, observe again, a few rounds at most; its result is a
  `result.ReconcileResult`.
- *Member*: a Topic or User; members of one cluster are reconciled in batches over one connection (`members`).
- *Record*: status fields that are written before the first step, because they cannot be observed after a crash
  (`operation_record`).
- *Expected errors*: what ports may raise; they become a readiness (`error_results`). Others are bugs, and are logged.

Invariants: the result of one object does not depend on the others of its batch; a status is written only if it differs,
and only over the version that it was computed from; events and logs are written for new results only.

Start with `topic.reconcile`, then `cluster.reconcile`; `manager` is the entry from the work queue.

Surprising: a rejection is planned twice before it is believed, because a broker may lag behind the controller. A
conflict of a write is no error: the object is read and reconciled again.
"""
