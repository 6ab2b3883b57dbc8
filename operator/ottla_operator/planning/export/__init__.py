"""Manifests of the topics and users that a cluster has, for its adoption by the operator.

Terms: *adoption*: see `planning.topic` and `planning.user`; *to export*: to write the manifest whose adoption changes
nothing; *incomplete*: a manifest that lacks a part of its user, because no field can hold it.

Invariants: an exported manifest is valid by the CRDs, and its adoption changes neither a topic nor the credential of a
user. A user of which a part would be removed is exported with ``spec.paused``. Nothing is left out without a warning.
The same cluster gives the same manifests, and the object's name of a topic or user does not depend on the others.

Start with `topics.export_topic` and `users.export_users`; `names` chooses the names of objects.

Surprising: a user with a password refers to a Secret that does not exist. Until an administrator has written the
password there, the operator applies rules and limits and leaves the credential alone (``PasswordMissing``).
"""
