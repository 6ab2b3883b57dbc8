"""The group coordinator: groups of four protocols, and their committed offsets.

**Terms.** A *classic group* has members that join in *generations*; the leader among them, a client, assigns the
partitions. A *rebalance* leads from one generation to the next: join phase, then sync phase. A *static member* has an
instance id and may return under a new member id without a rebalance (KIP-345). A *simple consumer* commits offsets and
does not join a group. A *consumer group* (KIP-848) has an *epoch* that changes with its members, subscriptions and
topics; the coordinator computes a *target assignment*, and leads each member to its part of it by heartbeats. A *share
group* (KIP-932) has these too, but several of its members may have the same partition, and it has no committed offsets.
The members of a *streams group* (KIP-1071) are threads of a Kafka Streams application; what they get are *tasks*.

**Start reading** at `coordinator.py`: it routes each API to the service of its protocol.

============================== =========================================================================================
`coordinator.py`               `GroupCoordinator`: routes requests, and events of the node
`classic/service.py`           JoinGroup, SyncGroup, Heartbeat, LeaveGroup; one file for each next to it
`classic/rebalance.py`         the transition from one generation to the next, with its timers
`classic/group.py`             members, generation, leader and protocol of one group
`classic/state.py`             the table of transitions; drawn in `docs/states.md`
`assignors/types.py`           server-side assignors `uniform`, `range` and `simple`: their input and result
`regex/search.py`              subscriptions by regular expression: which topics match
`consumer/service.py`          ConsumerGroupHeartbeat, ConsumerGroupDescribe
`consumer/heartbeat.py`        the steps of one heartbeat; `consumer/reconciliation.py` is the last of them
`consumer/group.py`            members, epochs, target and owners of one group, as its records say
`consumer/target.py`           target assignments, by the assignors
`migration/`                   groups that change between the classic and the consumer protocol
`modern/`                      what consumer, share and streams groups have in common
`share/service.py`             ShareGroupHeartbeat, ShareGroupDescribe; the initialization of share-partitions
`share/heartbeat.py`           the steps of one heartbeat of a member of a share group
`share/offset_service.py`      start offsets of share groups
`streams/service.py`           StreamsGroupHeartbeat, StreamsGroupDescribe
`streams/heartbeat.py`         the steps of one heartbeat; `streams/reconciliation.py` is the last of them
`streams/topics/configure.py`  the tasks of a topology, and its internal topics
`offsets/service.py`           offsets, also those in transactions; `offsets/expiry.py` removes old offsets
`administration.py`            ListGroups, DescribeGroups, DeleteGroups
`shard.py`                     the state of one ``__consumer_offsets`` partition, replayed from its records
`log.py`                       those records, as bytes
============================== =========================================================================================

A protocol is a folder (`classic/`, `consumer/`, `share/`, `streams/`) with a service, a route in `coordinator.py`, its
records in `log.py`, and its state in `shard.py`. A group id belongs to one protocol.

**Invariants.** Those of `coordinator/`, and:

1. Members of a generation agree on its leader and protocol, and each receives what the leader assigned to it.
2. A group is Stable only when its assignments are committed.
3. A partition of a consumer group has one owner: it is given to a member when no other member owns it. So is an active
   task of a streams group.
4. Committed offsets survive every restart; assignments do, members' timers start again.

**Surprises.** Members, generations and timers of classic groups are ahead of the log, as in Kafka: they are soft
until SyncGroup stores them. A heartbeat during loading succeeds, because no session expires then. A group that only has
offsets has no record of its own. Members keep the order in which they joined, so that the same requests always elect
the same leader; Kafka chooses any.
"""
