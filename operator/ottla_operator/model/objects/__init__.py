"""Builders of a Cluster's Kubernetes objects, one module per kind; `model.kubernetes_objects` calls them.

Pure functions from `manifest.Cluster` (and `nodes.DesiredNode`) to documents for server-side apply. Terms: *pool*: one
StatefulSet, ConfigMap and set of volume claims; *inside* addresses are names of the headless Service, *outside*
addresses are those of node ports and load balancers.

Invariants: every object carries `metadata.CLUSTER_LABEL` and an owner reference to its Cluster, except volume claims,
which outlive it unless ``deletionPolicy: Delete``; names are derived from cluster, pool and ordinal only, so an object
is found without having been recorded; quantities are canonical.

Start with `metadata`, `pods`, `services`; then `outside_services` and `volumes`.

Surprising: StatefulSets are ``OnDelete``, the operator alone restarts pods; Services publish pods that are not ready,
because nodes find each other before they are ready; a PodDisruptionBudget is updated by the planner
(`planning.cluster.disruption`), not only created.
"""
