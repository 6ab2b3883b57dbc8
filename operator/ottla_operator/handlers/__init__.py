"""kopf wiring, one file per kind: handlers mark keys dirty and do nothing else.

They are event handlers, so kopf writes nothing of its own on objects; finalizers are the controller's.
"""

import kopf

from ottla_operator.controller import Controller
from ottla_operator.handlers import cluster, topic, user


def register(registry: kopf.OperatorRegistry, controller: Controller) -> None:
    """Register the handlers of every kind."""
    for kind in (cluster, topic, user):
        kind.register(registry, controller)
