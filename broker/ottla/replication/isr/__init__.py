"""The in-sync replicas of partitions that this node leads: the state machine, and proposals to the controller.

Terms: the *committed* ISR is the controller's last one; a *pending* change was proposed and has no result yet; the
*maximal* ISR is the larger of the two, and the one that the high watermark counts with.

Invariants:

- One change per partition is pending at a time, and it expands or shrinks, never both.
- A replica that is about to join must have a record before it is committed, and so must one that is about to leave.
- A leader that the controller's response shows to be behind waits for the metadata log and proposes nothing meanwhile.
- Only a broker that is registered, unfenced, and of the incarnation that fetched may join (KIP-903).

Start with `partition_isr.TRANSITIONS`; `docs/states.md` has its diagram. `remote_replica` has the leader's knowledge of
one follower, `isr_change` the proposal, `alter_partition_manager` sends proposals in batches.
`ottla.replication.isr_manager` decides when followers are checked.

Surprises: a follower whose log end equals the leader's is caught up, however long ago it fetched; the time of its last
fetch comes from its fetch session, because a session does not name unchanged partitions.
"""
