"""Simulator: whole clusters of real nodes in one thread and in simulated time, from one seed, with faults.

It is a second runtime next to `ottla.runtime`: the same `Node` objects run on simulated ports (clock, disk,
network, random source, background), thousands of times faster than real time. A seed that fails replays exactly.

Packages, from the bottom up; each imports only those before it:

- `world`: the simulated ports and their environment: disks, clocks, the network fabric, hosts, `Cluster`.
- `invariants`: conditions that hold after every event, and the state observer that reports changes to them.
- `clients`: simulated producers, consumers, group members and administrators.
- `faults`: the nemesis and its faults of processes, disks, the network and the quorum.
- `runs`: one seed from its plan to its outcome, and the command line.

Terms: a *run* is one seed with its *plan*; an *invariant* is checked after every event; a partition is *excused* once
so many disks have lost unsynced data that no cluster could have kept its records.

Start reading at `runs.simulation`, then `world.cluster`. Surprising: time passes only in `Cluster.run`, every random
number of a run comes from its seed, and so one more draw anywhere changes every run. See docs/simulator.md.
"""
