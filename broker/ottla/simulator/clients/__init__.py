"""Clients: simulated producers, consumers, group members, copiers and administrators on hosts of their own.

They speak the wire protocol over the network fabric, through the nodes' own `PeerClient`, and report each response to
the state observer or to the group invariants, which check it.

Terms: a *client host* is a host with connections, metadata and timers that its clients share; a *target* is a partition
and the endpoint of its leader. A *copier* is a read-process-write client: its output is copies of its input.
A *streams process* has members of a streams group as its threads.

Invariants:

- Producers, consumers and members retry until they have a response, as Kafka's clients do; an administrator does not.
- A value of a producer is unique in the run, so that a lost or duplicated record is found by its value.
- Acknowledgements are reported only for acks=all: with fewer acks a record may be lost.

Start reading at `client_host` (connections, metadata, requests), then `producer`; `transactional_client` is the base of
all with a transactional id. `requests` is for tests that hold one connection. Surprising: `voter_reconciler` is an
administrator who keeps every controller a voter.
"""
