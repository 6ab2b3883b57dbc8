"""Reconciliation of Users: access control entries, quotas, credentials and the Secret of each.

Terms: *access*: the listener of the cluster through which the user connects, with trust and mechanism. *Heir*: another
object with the same principal, which keeps the entries when this one is deleted.

Invariants: the principal is in the status before the first step, so that a deletion knows what to remove; a deletion
removes credentials first, then entries and quotas, then the Secret. No password is in a step, result, log or error.

Start with `reconcile.reconcile_user`; `reconciler` binds it to the Kubernetes API, with one description of all users of
a batch.

Surprising: without a matching listener entries and quotas are still applied, only the Secret is not. Users' Secrets are
not watched; a resync repairs them.
"""
