"""Ports of the operator: protocols of everything outside of it, and the values observed through them.

Terms:
- *Host*: runs nodes; pods on Kubernetes, processes on a laptop (`host.Host`).
- *Broker admin*: Kafka Admin calls on one cluster (`broker_admin.BrokerAdmin`, with `user_admin.UserAdmin`).
- *Stores*: Kubernetes objects (`object_store`), Secrets (`secret_store`), rebalance plans (`plan_store`).
- *Observed*: `observed_cluster.ObservedCluster` is the host's view (nodes, volumes, outdated objects);
  `cluster_view.ClusterView` is the brokers' view (quorum, partitions, fenced brokers). Planners take both.

Invariants: every call may be repeated after a crash in its middle, and then finishes the work. `HostError` means that
waiting does not help; `ApiError`, OSError and `BrokerUnreachableError` are transient. Calls that change a node carry
the uid of the observed run: another run is left alone.

Start with `host`, `broker_admin`, `nodes` and `cluster_view`. The implementations are in `adapters`; tests replace them
with doubles.

Surprising: facts that cost a request are in a view only if they were requested (``with_min_isr``, ``with_settings``);
an empty mapping then means not requested. READY is what the host reports, not the brokers; a node that was READY and
is not now is UNREADY, and still counts as needed.
"""
