"""Consumer groups (KIP-848): members, epochs, target assignments, and the steps of members towards them.

Terms: the *group epoch* changes with members, subscriptions and topics; the *assignment epoch* is the one that the
target assignment was computed for; a *member epoch* is the assignment epoch that a member has reached. A member *owns*
a partition from its assignment until its heartbeat no longer lists it. A group's *metadata hash* is of its topics.

Invariants:

- `group` changes by `replay` only; `heartbeat` and `leave` decide, and return records.
- A partition is assigned to a member only while no other member owns it (`reconciliation`).
- No request walks the members of a group: states, subscriptions and owners are counted as members change. What has to
  walk them, assignors and searches by regular expression, runs in slices (`modern.jobs`).
- The same requests write the same records as JVM Kafka, the hash included; each loads the log of the other.

Start reading at `service`, then `heartbeat`, `target` and `reconciliation`.

Surprising: a group that is computed in slices may have new targets under the old assignment epoch for some
milliseconds (`target`). A member that sends its previous epoch with what it was assigned then is accepted: the response
with the new epoch may have been lost. An older epoch may commit offsets of partitions that the member has had since
then (KIP-1251).
"""
