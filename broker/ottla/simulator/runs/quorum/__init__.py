"""Quorum: a metadata quorum alone, without brokers: several `RaftClient`s on simulated disks and channels.

Start reading at `simulation`. It has invariants of its own (`invariants`), which see the replicas directly; those of
`ottla.simulator.invariants` see whole nodes.
"""
