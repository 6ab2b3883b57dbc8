"""Nodes as pods; Secrets, rebalance plans and statuses as Kubernetes objects, over one client of the API server.

Terms:
- *Children*: objects that a Cluster owns (`children`); they are written only if they differ, and pruned only with the
  Cluster's labels and owner reference.
- *Claims*: PersistentVolumeClaims, which outlive their pods and have no owner unless ``deletionPolicy: Delete``.
- *Admission*: the API server's response to a dry run of a pod that does not exist yet (`admission`, `pod_quota`).
- *Outdated*: names of objects that differ from the desired ones, which the step `Publish` writes.

Invariants: writes are server-side applies by one field manager, or conditional on uid or resourceVersion; nothing is
written without leadership (`connection.Connection`); a late or repeated delete never hits a successor, because it
carries the uid. Secrets' contents are in no error.

Start with `host`, then `children`, `pod_state` with `pod_events`, and `volume_claims`. `api` has the calls;
`connection` sends them by the official client, with `credentials` and `retries`.

Surprising: a StatefulSet's volume claim templates are immutable, so a new list replaces the StatefulSet and orphans its
pods, which the next one adopts. A StatefulSet has no status for a pod that is rejected: it is marked by an annotation,
whose removal wakes its controller. A pod whose Kubernetes node is lost is UNREADY, not failed: it may still run.
"""
