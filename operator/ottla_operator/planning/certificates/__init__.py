"""Planning of a Cluster's certificates and of the two authorities that sign them.

Terms:
- *Cluster CA* signs the nodes and the operator; *clients CA* signs Users of the type tls.
- *Present*, *following* and *previous* authority: the one that signs, the one that will, and those that did and are
  still trusted (`authorities.AuthorityState`). A replacement has three phases, each observed on all nodes before the
  next.
- *Order*: a Certificate object of cert-manager, for a listener with an ``issuerRef``.
- *Overlap*: how long clients can still use, or have to trust, the old key.

- *Left behind*: a User whose Secret was outdated when the rotation continued without it.

Invariants: no certificate is signed by an authority that nodes do not trust yet; an authority is removed only after its
certificates are replaced on all nodes; Users whose Secrets can be updated have a phase before the next one starts, and
others delay it for a bounded time (`user_wait`), and no renewal; all state is in Secrets and their annotations, so a
killed operator continues.

Start with `authorities`, then `plan`, which signs by the rules of `leaves` from what is `observed`; `users` finds
outdated Secrets, and `report` describes the result for the status.

Surprising: nodes get a new certificate whenever their trust changes, because the certificate that a node presents is
the only sign that it has read both. An authority whose key is lost cannot be confirmed that way, so a fixed delay is
used (`authorities.BLIND`).
"""
