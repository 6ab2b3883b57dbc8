"""Reconciliation of one Cluster: its certificates, then nodes and brokers.

Terms: *observation*: the host's and the brokers' view at one time, with certificates and rebalance input
(`observation.ClusterObservation`). *Journal*: the recorder of the operation in progress. *Keeper*: what issuing
certificates needs. *Closed*: why restarts that are not urgent wait for a maintenance window.

Invariants: certificates come first, because nodes cannot start without them; the id and the first voters of a new
cluster are in its status before the first step; the record of an operation is written before its step. Errors of hosts
and brokers never escape: each becomes a readiness.

Start with `reconcile.reconcile_cluster`, then `observation`; `reconciler` binds both to the Kubernetes API and to the
ownership of the Cluster.

Surprising: the nodes' desired state is computed twice if nodes leave or the quorum has just formed, because it depends
on the brokers' view. Users' Secrets are read only while an authority is being replaced.
"""
