"""A node's membership in the cluster: it registers, sends heartbeats, and reaches the active controller.

Terms: a broker is *fenced* until the controller has seen it catch up with the metadata log; its *epoch* is the offset
of its registration record. The *active* controller is the leader of the metadata quorum, in this process or elsewhere.

Invariants:

- A request to the controller is sent again, to the next leader if there is one, until it has a response or times out;
  NOT_CONTROLLER is never returned as a response while there is time.
- Only one registration or heartbeat is in flight at a time.
- A broker whose registration was replaced by another process stops.

Start with `broker_lifecycle`, then `controller_channel`.

Surprises: `ottla.controller` has the other side. Nothing here imports it; a controller in the same process is seen as a
`LocalController`.
"""
