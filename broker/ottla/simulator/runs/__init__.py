"""Runs: one seed from its plan to its outcome, and many of them one after the other.

Terms: the *plan* is the configuration that a seed draws (shape of the cluster, clients, rate of faults); the *outcome*
has the violated invariant, if any; the *trace* keeps the last events and a digest of all of them.

Invariants: a seed at a commit gives the same digest in every process; time passes only from event to event; after the
faults have stopped, all nodes, partitions and clients recover within a limit of simulated time.

Start reading at `simulation`; `plan` draws the shape of the cluster and its load, `transactional_workload` has the
transactional clients with their invariants, `campaign` is the command line (`python -m ottla.simulator`), `trace` is
for reports and for comparisons of two runs. `quorum` is a simulation of its own: raft alone, without brokers.
Surprising: parts of a run that were added later draw from random sources of their own, so that the runs of older seeds
stay the same.
"""
