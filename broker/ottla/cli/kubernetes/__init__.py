"""``kubectl ottla``: a cluster that the operator runs, by the rights that kubectl has."""
