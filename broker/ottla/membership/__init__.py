"""A node's own part in the cluster: it registers, sends heartbeats, and reaches the active controller.

Terms: a broker is *fenced* until the controller has seen it catch up with the metadata log; its *epoch* is the offset
of its registration record. The *active* controller is the leader of the metadata quorum, in this process or elsewhere.

Invariants:

- A request for the controller is sent again, to the next leader where there is one, until it is answered or its time
  is up; NOT_CONTROLLER is never passed on as an answer while there is time.
- Only one registration or heartbeat is on its way at a time.
- A broker whose registration was replaced by another process stops.

Start with `broker_lifecycle`, then `controller_channel`.

What surprises: `ottla.controller` has the other side. Nothing here imports it; a controller in the same process is seen
as a `LocalController`.
"""
