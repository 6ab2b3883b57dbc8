"""The metadata quorum: KRaft, the replicated log ``__cluster_metadata-0`` that controllers write and all nodes read.

`RaftClient` is the only entry. The node drives it (``initialize``, ``tick``, ``handle_*`` for the requests of peers),
the controller appends to it and follows its commits as a `RaftListener`; brokers follow the log as observers.

Terms: a voter takes part in elections and in the high watermark; an observer only fetches. An epoch has at most one
leader. A replica is a node id together with a directory id (KIP-853). The states are Unattached, Prospective
(pre-vote, KIP-996), Candidate, Leader, Follower and Resigned: a module each, their transitions in `quorum_state`.

Invariants:

- A vote, an epoch and a leader are in ``quorum-state`` on disk before they take effect.
- A voter syncs what it fetched before it fetches again, because a fetch offset acknowledges everything below.
- The high watermark never goes back, and passes the start of an epoch before it counts records of older ones.
- Listeners are notified of each committed record once, in order, never from inside another notification.
- Any failure of the disk ends the replica, and with it the node: no step may be skipped.

Start with `client`, `state_parts` (the parts and when each runs), then `quorum_state`, `fetching` for a follower,
`leadership` and `leader` for a leader. `voter_changes`, `voter_history` and `voter_set` are KIP-853.

Surprises: a follower that finds the connection refused at the leader's address grants pre-votes at once (`follower`);
a leader starts as Resigned after a restart (`resigned`); static voters have no directory id, so that
`VoterSet.key_of` is needed to find their progress; new voters take effect before they are committed.
"""
