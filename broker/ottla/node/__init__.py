"""One node, put together from its parts: broker, controller or both. Synchronous and sans-IO, like all below it.

Terms: a *part* has a `tick` and a deadline; the node ticks those that are due. The *driver* is what owns sockets, disks
and the clock: the reactor of `ottla.runtime`, or the simulator.

Invariants:

- Everything happens in one thread, in calls of the driver; nothing here waits.
- A node serves clients only after the controller has unfenced it, and leads or follows partitions only after it has
  registered: what it knew before it stopped may be out of date.
- A defect in one part is logged and does not keep the others from being ticked.

Start with `node`; `settings` says which part gets which keys of ``server.properties``. `shutdown` is the order in which
a node leaves.

What surprises: starting is a chain of events, not a script. Logs are loaded in the constructor; the rest follows from
what raft and the controller say.
"""
