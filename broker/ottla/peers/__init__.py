"""Requests of a node to other nodes: connections, versions, authentication, time-outs and reconnects, in one place.

`channel.PeerChannel` is the interface that raft, replication and the way to the controller use; `client.PeerClient` is
its only implementation, on `ports.Network`. The simulator's clients use it, too.

Terms:

- Peer connection: a connection to one endpoint for one purpose. Requests with the same purpose share it and are
  responded to in order; a fetch that waits for records needs a purpose of its own.
- Setup: connect, agree on versions (ApiVersions), authenticate (SASL). Until then requests are queued as unsent.
- Probe: a connection that only tests whether a process listens at an endpoint.

Invariants:

- Every request completes exactly once, with the response or with a `PeerFailure`, unless the client is closed.
- A lost connection fails the requests that were sent over it; unsent ones go over the next connection. A failed setup
  fails them all. The first reconnect is immediate, later ones back off.
- A time-out closes the connection: responses are in order, so requests behind a silent one would wait in vain.
- A response's record bytes are views of a frame that is never written again: they may be kept.

Start with `channel`, then `client.PeerClient.send` and `received`, then `peer_connection`. `frames` splits the received
bytes, `versioned_api` encodes requests, `sasl_client` authenticates and re-authenticates, `denials` reports requests
that other nodes do not authorize, `peer_names` resolves host names ahead. `request_queues` is for callers with many
small calls: those that wait for a node go together in its next request.

Surprises: a successful connect proves little, as a process that is exiting may still seem to listen; hence `probes`
waits for the deadline and tries twice. After an authentication failure the longest backoff applies at once.
"""
