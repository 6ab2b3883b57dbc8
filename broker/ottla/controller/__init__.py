"""The active controller's decisions about the metadata; a standby follows the log and decides nothing.

Terms: a *decision* is a `ControllerResult`: a response, and the records that carry it out. The *state* is the newest
image, which includes records that were appended and are not committed yet. *Soft state* (heartbeats, probes, pings,
last known leaders) is in no log: the next active controller starts without it.

Invariants:

- Each ``...Control`` decides on the newest state and changes nothing; `QuorumController` appends the records, replays
  them at once, and completes the response when they are committed.
- One decision at a time: long ones are made in slices, and all others wait until the last slice (`decision_queue`).
- A controller that loses leadership goes back to the committed state and fails pending requests.
- Two controllers that replayed the same records decide identically: all iteration is in a defined order.

Start with `quorum_controller` (requests, time), `decision_queue`, `state`, `result`. For leaders, in-sync sets and
failed brokers:

====================  ========================================================================================
partition_change      next leader, ISR and replicas of one partition, as one record
leader_and_isr        changes of the partitions of a broker that is fenced, unfenced or back
alter_partition       a leader's proposal of an ISR (AlterPartition)
elect_leaders         elections that a client requests (ElectLeaders)
periodic_elections    preferred leaders and unclean elections, by time
heartbeats            sessions: a broker that sends none is fenced
probes                a broker whose connection broke: fenced at once if no process listens any more
pings                 a broker that is connected and does not respond: fenced after a second
last_known_leaders    the leader that was seen alive last (KIP-966)
====================  ========================================================================================

Surprises: ISR proposals come from leaders (`ottla.replication.isr`); this side only checks and records them.
"""
