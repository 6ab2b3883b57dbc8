"""Incremental fetch sessions (KIP-227): the partitions of a client, cached so that a fetch names only what changed.

Terms: a session has an id and an epoch; a *full* fetch names all partitions and may create a session; an *incremental*
one continues it. A partition is *pending* when the next response must check it. A *watcher* is the entry of a session
at a partition.

Invariants:

- Every change of a partition is noted in the sessions that hold it (`partition_watchers`), and only partitions with a
  note are checked: a fetch of a thousand quiet partitions costs nothing.
- A request with another epoch than the session's is rejected; while one request changes a session in slices, no other
  request can continue it.
- The sessions of a node are bounded in number and in bytes; a fetch beyond that is served without a session.

Start with `fetch_session`, then `fetch_session_cache.open_context`. The follower's side is
`ottla.replication.fetch_session_handler`.

Surprises: a session with a negative id lasts for a single fetch of many partitions, and no client knows it; watchers of
closed sessions are removed lazily, because removing them at once would cost a walk through all partitions.
"""
