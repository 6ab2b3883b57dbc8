"""Faults: what breaks in a run, drawn from its seed, and repaired after a while.

Start reading at `nemesis`, which draws the faults; `fault_context` is what they share. Each module has one kind:
`process_faults`, `disk_faults`, `network_faults`, `quorum_faults`. `network_chaos` is the slow, uneven, cut network.
Surprising: each seed knows only some of the faults, since a bug may need several of one kind, undisturbed by others.
"""
