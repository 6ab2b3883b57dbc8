"""Server-side assignors: `uniform` and `range` of the consumer protocol (KIP-848), `simple` of share groups (KIP-932).

An assignor computes the target assignment of a whole group, in slices, from what `types.GroupSpec` describes. It keeps
no state between two assignments, and reads nothing else.
"""
