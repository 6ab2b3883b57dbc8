"""The cluster's metadata as every node sees it: images, deltas, and the records of ``__cluster_metadata``.

Terms: a *record* is a message with the version it is written in (`records`); an *image* is the whole metadata at one
offset, immutable; a *delta* is the changes from one image to the next; a *publisher* follows the images.

`image.MetadataImage` and `delta.MetadataDelta` have a part for each kind of metadata (`cluster`, `topics`, `configs`,
`features`, `acls`, `scram`, `client_quotas`, `producer_ids`), and each part has both its image and its delta.

Invariants:

- Records change an image only through a delta; `MetadataLoader` (all nodes) and `ottla.controller.state` (the
  controller) replay them with the same code, `loader.BatchReplayer`.
- Images share everything that did not change, so that an ``is`` comparison finds out that nothing did.
- A transaction of records (KIP-868) is published as one image when it ends, or never.
- The records of an image, replayed on an empty one, give the same image: this is what a snapshot holds.

Start with `loader`, then `delta`. Handlers use `cache.MetadataCache`. `bootstrap`, `format` and `scram_arguments` write
the storage of a new node; `snapshot_generator` writes snapshots in slices; `metadata_version` has the record versions
at each metadata.version.

Surprises: a fenced broker stays in Metadata responses for a session timeout (`cache`); the decoy secret of SCRAM is
the credential of a user without a name (`scram`).
"""
