"""Reconciliation of Topics, many of one cluster at a time.

Terms: *desired* topics have a Topic object; *deleted* ones have an object that is being deleted. A topic is *managed*
once it was created or adopted by its object; *adopting* one records that in the status first.

Invariants: one observation of the brokers serves all topics of a batch, and topics are created many per request, but a
rejection of one changes nothing for the others. Before a topic is created or adopted its status is written, so that an
operator that is killed in between does not take its own topic for a foreign one.

Start with `reconcile.reconcile_topics`; `reconciler` binds it to the Kubernetes API.

Surprising: a replication factor that brokers reject is a wait while the Cluster's brokers are still starting. Several
steps of a topic are validated before the first is executed.
"""
