"""Values of the operator: manifests, desired nodes, Kubernetes objects, conditions. No I/O, clock or randomness.

Terms:
- *Document*: a manifest or stored object as nested dictionaries in the API's field names (`document`).
- *Admitted*: checked against the CRD's schema and CEL rules (`schema.admit`, `rules`), as the API server does it; the
  classes `manifest.Cluster`, `topic.Topic` and `user.User` are parsed from admitted documents only.
- *Desired*: what the spec leads to: `nodes.DesiredCluster` with one `DesiredNode` per node, and its `Place` (host
  names, ports and directories, which the host chooses).
- *Revision*: digest of everything that needs a restart when it changes (`nodes`); its parts say what changed
  (`revision`).
- *Readiness*: the outcome of a reconciliation; `conditions` maps it to Ready, Progressing, Degraded and Paused.
- *Operation*: work in progress that takes several reconciliations, and its record in the status (`operation`).

Invariants: the same input gives the same output, byte for byte; ids that the operator chooses are digests of the
object's uid. No class that holds a password or a private key prints it.

Start with `manifest`, then `nodes` and `node_listeners`, `kubernetes_objects` and `objects`, `conditions`.

Surprising: the schema has no defaults, because a default inside a list is a difference that GitOps tools never settle;
defaults are in the parsers. Quantities are written in the API server's canonical form, or every resync would find a
difference (`quantity`). `certificates` imports a large library; import it only where TLS is configured.
"""
