"""Which brokers get no new partitions, because they leave or are not to take part yet. Pure. Source: KIP-1066.

A cordon is a config of one broker, and outlives it: whoever has the same id later has it again. What the operator sets
is in its record before, and until it was taken away again; a value that somebody else has set stays.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from ottla_operator.model.scaling import ScalingRecord
from ottla_operator.planning.cluster.temporary_settings import Remembered
from ottla_operator.planning.steps.cluster import AlterOwnConfigs
from ottla_operator.ports.cluster_view import ClusterView

CORDONED: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"


def cordon(wanted: Collection[int], view: ClusterView, record: ScalingRecord) -> Remembered:
    """Return the steps after which, of the brokers that are there, just ``wanted`` are cordoned."""
    sets = [
        AlterOwnConfigs(node, {CORDONED: EVERY_DIRECTORY}, ())
        for node in sorted(wanted)
        if view.own_configs.get(node, {CORDONED: ""}).get(CORDONED) is None
    ]
    known = {*record.cordoned, *(step.node_id for step in sets)}
    # What is shown may be a moment old. To take away what is not there is no harm; to leave what is there would be one.
    lifts = [AlterOwnConfigs(node, {}, (CORDONED,)) for node in view.live_brokers if node in known - set(wanted)]
    return Remembered(
        sets=tuple(sets),
        lifts=tuple(lifts),
        before=replace(record, cordoned=tuple(sorted(known))),
        after=replace(record, cordoned=tuple(sorted(known - {step.node_id for step in lifts}))),
    )
