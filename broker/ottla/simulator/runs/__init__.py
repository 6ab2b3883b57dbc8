"""Runs: one seed from its plan to its outcome, and many of them one after the other.

Start reading at `simulation`; `plan` draws the shape of the cluster and its load, `campaign` is the command line
(`python -m ottla.simulator`), `trace` keeps the last events and the digest that two equal runs share. `quorum` is a
simulation of its own: raft alone, without brokers.
"""
