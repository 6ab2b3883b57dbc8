"""World: the simulated ports of nodes, and the hosts and network around them.

Terms: a *host* has a disk, a clock and an address, and outlives the processes that run on it; the *network fabric*
carries connections between hosts; *network conditions* decide how long that takes.

Invariants: nothing here reads real time or real randomness; a power cut loses exactly what was not synced.
Start reading at `cluster` (a whole cluster) or `single_node` (one node and clients held by a test); `disk` and
`network_fabric` are the two ports with faults of their own. `event_loop` runs asyncio programs on a simulated host.
"""
