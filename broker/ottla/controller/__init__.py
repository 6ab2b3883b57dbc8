"""What the active controller decides about the metadata; a standby follows the log and decides nothing.

Terms: a *decision* is a `ControllerResult`: a response, and the records that make it true. The *state* is the newest
image, with what was appended and is not committed yet. *Soft state* (heartbeats, probes, last known leaders) is in no
log: the next active controller starts without it.

Invariants:

- Each ``...Control`` decides on the newest state and changes nothing; `QuorumController` appends the records, replays
  them at once, and answers when they are committed.
- A controller that loses leadership goes back to the committed state and fails what waits.
- Two controllers that replayed the same records decide alike: all iteration is in a defined order.

Where to start: `quorum_controller` (requests, time), `state`, `result`. Who leads, and who is in sync:

====================  ========================================================================================
partition_change      next leader, ISR and replicas of one partition, as one record
leader_and_isr        what a broker that is fenced, unfenced or back means to its partitions
alter_partition       a leader's proposal of an ISR (AlterPartition)
elect_leaders         elections that a client asks for (ElectLeaders)
periodic_elections    preferred leaders and unclean elections, by time
last_known_leaders    which leader was seen alive last (KIP-966)
====================  ========================================================================================

What surprises: ISR proposals come from leaders (`ottla.replication.isr`); this side only checks and records them.
"""
