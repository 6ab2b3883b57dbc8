"""One node, assembled from its parts: broker, controller or both. Synchronous and sans-IO, like all below it.

Terms: a *part* has a `tick` and a deadline; the node ticks those that are due. The *driver* owns sockets, disks and the
clock: the reactor of `ottla.runtime`, or the simulator.

Invariants:

- Everything happens in one thread, in calls of the driver; nothing here waits.
- A node serves clients only after the controller has unfenced it, and leads or follows partitions only after it has
  registered: metadata from before its last stop may be out of date.
- A defect in one part is logged and does not keep the others from being ticked.

Start with `node`; `metadata_plane`, `data_plane` and `client_plane` create its parts, `settings` maps the keys of
``server.properties`` to parts. `shutdown` has the order of a controlled shutdown.

Surprises: starting is a chain of events, not a script. Logs are loaded in the constructor; the rest follows from events
of raft and the controller.
"""
