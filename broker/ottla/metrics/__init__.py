"""Metrics: the registry of rows, and counters that no other package owns.

Terms: a *row* is one metric; a *sample* is a copy of a package's numbers, taken on the node's loop, from which the
rows are formatted elsewhere. Invariants: counters only grow, and only the loop changes them. Start reading at
`registry`. `network`, `tls` and `traffic` have counters and their rows; `rate` measures usage for quotas.
Surprising: the loop only copies numbers; the admin thread formats names and text.
"""
