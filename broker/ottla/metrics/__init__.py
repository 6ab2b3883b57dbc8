"""Metrics: the registry of rows, and counters that no other package owns.

Terms: a *row* is one metric; a *sample* is what a package copies on the node's loop for its rows, so that names and
text are made elsewhere. Start reading at `registry`. `network`, `tls` and `traffic` hold counters and their rows;
`rate` measures what quotas limit. Surprising: the loop only copies numbers; the admin thread does the rest.
"""
