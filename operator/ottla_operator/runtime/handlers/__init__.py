"""kopf wiring, one file per kind: handlers mark keys dirty and do nothing else.

They are event handlers, so kopf writes nothing of its own on objects; finalizers are the controller's.
"""

import kopf

from ottla_operator.runtime.handlers import cluster, topic, user
from ottla_operator.runtime.handlers.events import Marks


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Register the handlers of every kind."""
    for kind in (cluster, topic, user):
        kind.register(registry, marks)
