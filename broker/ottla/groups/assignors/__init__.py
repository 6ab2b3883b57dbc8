"""Server-side assignors of groups of the consumer protocol (KIP-848): `uniform` and `range`.

An assignor computes the target assignment of a whole group, in slices, from what `types.GroupSpec` describes. It keeps
no state between two assignments, and reads nothing else.
"""
