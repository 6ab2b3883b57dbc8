"""Faults: failures of processes, disks, the network and the quorum, drawn from a run's seed and repaired after a while.

Terms: the *nemesis* draws a fault by weight, injects it, and schedules the next one; the *fault context* has the
cluster, the random source and the restarts that all faults share; *network chaos* is the slow, uneven, cut network.

Invariants:

- Faults of processes, disks and links are repaired within a limit each, and all of them when the run's faults stop.
- A fault that loses data is reported to the state observer, which decides whether a partition is excused.
- A process that ends in any way restarts with the recovery of its disk.

Start reading at `nemesis`, then `fault_context`. Each module has one kind: `process_faults`, `disk_faults`,
`network_faults`, `quorum_faults`. Surprising: each seed has only some of the faults, since a bug may need several of
one kind, undisturbed by others.
"""
