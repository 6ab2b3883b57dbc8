"""Fetch rounds: one Fetch request of a consumer or a follower, from its arrival to its response.

Terms: a *round* serves one request and may read several times; a partition is *pending* while it may have something to
report, else *quiet*; a round is *urgent* when the client should not wait any longer (an error, a diverged log, a
preferred read replica).

Invariants:

- A round responds once, with at most the request's and the node's fetch.max.bytes, but always with a first batch.
- Consumers are served below the high watermark or the last stable offset, followers up to the log end.
- A follower's progress is recorded before anything is read, and wakes waiting requests once for all its partitions.
- Rounds with more than ``STRAIGHT_MAX`` partitions run in slices; other requests are served in between.
- A round that a later request of its session has superseded reports INVALID_FETCH_SESSION_EPOCH.

Start with `fetch_round.FetchRound.start`; `consumer_fetch` and `follower_fetch` are its two kinds. Sessions are in
`ottla.replication.sessions`. `fetch_origin` has the protocols by which rounds see the request and the node: the
handlers are above this package. `replica_selector` is KIP-392.

Surprises: an error is reported once and then only now and then, unlike in Kafka; a follower that fetches the same
records again makes the leader check their CRCs; a follower that has yet to fetch a newly led partition is not held.
"""
