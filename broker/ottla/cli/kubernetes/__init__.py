"""``kubectl ottla``: commands for a cluster that the operator runs, with the permissions of kubectl."""
