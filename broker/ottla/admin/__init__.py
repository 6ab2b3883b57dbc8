"""Admin HTTP of a node: liveness, readiness and the metrics page, beside the Kafka protocol.

Terms: a *row* is one metric with its name, help and labels, declared in the ``metrics.py`` of the package that counts
it; a *section* joins rows with the part of the snapshot that they read; a *snapshot* is a copy of the node's numbers; a
*slice* is the part of a snapshot that is copied in one iteration of the node's loop.

Invariants:

- The pages' thread never touches the node's state: it reads through ``post``, which runs a call on the node's loop.
- No slice is long enough to delay requests: names, labels and text are formatted on this package's thread.
- Metric names, types and labels do not change: dashboards and alerts depend on them (``tests/broker/admin``).

Start reading at `server` (thread and socket), then `pages` (the HTTP handlers), `snapshot`, `metrics` (sections) and
`exposition` (Kafka's metric names). A new metric is a row in its own package, not a change here.

Surprising: the socket listens before the pages are imported, since the import is too slow for the node's start, so an
early probe waits instead of failing. A loop that does not respond makes ``/healthz`` fail after five seconds,
one that waits for a disk after ten minutes: a restart would wait for the same disk.
"""
