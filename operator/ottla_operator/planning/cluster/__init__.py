"""Planning of one Cluster: nodes, the metadata quorum, reassignments, configs, and rolling restarts.

Terms:
- *Sub-planner*: adds steps, obstacles and operations to the draft of a plan; `plan.SUB_PLANNERS` is the ordered list.
- *Leaving* nodes are no longer in the spec and still hold partitions or a vote; *surplus* nodes need not run any more.
- *Participating* brokers get new partitions; *newcomers* of the spec do not yet (``spec.scaling.onScaleUp``).
- *Blocker*: why no node may be stopped now (`restart_gates`).
- *Halted*: a roll that stopped because a node does not come up with the new spec (`rolling`).

Invariants: a node is stopped only while every partition keeps its minimum of in-sync replicas and the quorum its
majority; voters change one at a time; a broker config that is to be removed later is recorded before it is set; volumes
are deleted only for nodes that the brokers do not know any more.

Start with `plan`, then `restart_gates` and `rolling`; `scaling` with `draining`, `rebalancing`, `throttling`,
`cordons`.

Surprising: the order of the sub-planners is their priority, and is tested. A node that is UNREADY counts as needed, one
that never became ready does not: it is restarted first, whatever state the others are in. The disruption budget is
closed one reconciliation before a restart, so that no pod is evicted in between (`disruption`).
"""
