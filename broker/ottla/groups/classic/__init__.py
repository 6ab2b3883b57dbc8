"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup; the leader among the members assigns partitions.

Terms: a *pending member* has received its id but has not joined with it (KIP-394); a *waiting* request is one whose
response is delayed until a phase of the rebalance ends; `..._future` completes it. A group's *subscribed topics* come
from the members' metadata, and matter only for the expiry and deletion of offsets.

Invariants:

- Only `TRANSITIONS` of `state` happen; `group` asserts them. `docs/states.md` has the diagram.
- `group` has no timers and writes no records; `rebalance` decides, one file per API validates and delegates to it.
- A response with an assignment is sent after the assignment is committed; the group is Stable from then on.
- A member's older waiting request completes when a newer one of the same kind arrives.

Start reading at `service`, then `join` and `rebalance`.

Surprising: the state is ahead of the log. After a failover members of a generation that was not yet assigned join
again. During a rebalance `group.max.size` counts members that have rejoined, so the slowest are rejected. A static
member that returns keeps its assignment without a rebalance, and an older client among them must not notice that it
leads.
"""
