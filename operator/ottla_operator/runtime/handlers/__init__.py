"""Handlers of kopf, one module per kind: they mark keys dirty and do nothing else.

Terms: `events.Marks` is the interface that handlers call: ``seen`` (created or changed), ``gone`` (deleted) and
``child_seen`` (a StatefulSet of a Cluster changed).

Invariants: handlers have no effect but a mark, so a lost, late or repeated event costs only time. They are event
handlers (``kopf.on.event``), so kopf writes no annotations and no finalizers; the operator's finalizers are written by
`controllers`.

Start with `events`, then `cluster`; `runtime.watches` runs kopf with this registry.

Surprising: pods are not watched; the StatefulSet's status says enough, and costs fewer events. Secrets are not watched
either: a user's Secret is repaired at the next resync (`crds/user.md`).
"""

import kopf

from ottla_operator.runtime.handlers import cluster, topic, user
from ottla_operator.runtime.handlers.events import Marks


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Register the handlers of every kind."""
    for kind in (cluster, topic, user):
        kind.register(registry, marks)
