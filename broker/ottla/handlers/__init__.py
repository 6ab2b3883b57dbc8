"""Request handlers, one API of Kafka per module: check permissions, call the owner of the state, build the response.

Terms: a handler takes a `RequestContext` and the decoded request, and returns a response, a `Delayed` one, `Steps` (a
generator that is run in slices), or `CloseConnection`; `Services` are the parts of the node that it may call. To
*forward* a request is to send it to the active controller on behalf of its client (KIP-590).

Invariants:

- A handler has no state, clock or I/O: state belongs to the groups, replicas, metadata and quotas that it calls.
- A handler that may take longer than a millisecond yields; none computes for more than 5 ms without yielding.
- Permissions are checked in the handler; for forwarded requests by the handler on the active controller's node.
- Duplicate and unknown entries of a request get the results that Kafka's broker gives them.

Start reading at `api`, then `heartbeat` (the simplest handler) and `offset_commit` (one in steps). `catalog` lists the
APIs with their versions; a new API is a module and a row there. Shared by several handlers: `controller_forwarding`,
`in_parts` (forwarding of large requests), `config_resources`, `permissions`, `advertised`, `moved_leader`,
`quorum_responses`, `auto_create`.

Surprising: modules are imported upon their first request, or when a ready node is idle. Containers of a large request
are emptied one by one, because freeing them at once would block the loop for milliseconds.
"""
