"""Cordoned brokers: those that leave, or do not participate yet, get no new partitions. Pure. Source: KIP-1066.

A cordon is a config of one broker, and outlives it: a later broker with the same id has it again. Every cordon that the
operator sets is recorded before it is set, and until it was removed; a value that an administrator set stays.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from ottla_operator.model.scaling import ScalingRecord
from ottla_operator.planning.cluster.temporary_settings import RecordedSettings
from ottla_operator.planning.steps.cluster import AlterOwnConfigs
from ottla_operator.ports.cluster_view import ClusterView

CORDONED: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"


def cordon(wanted: Collection[int], view: ClusterView, record: ScalingRecord) -> RecordedSettings:
    """Return the steps after which, of the brokers that run, exactly ``wanted`` are cordoned."""
    sets = [
        AlterOwnConfigs(node, {CORDONED: EVERY_DIRECTORY}, ())
        for node in sorted(wanted)
        if view.own_configs.get(node, {CORDONED: ""}).get(CORDONED) is None
    ]
    known = {*record.cordoned, *(step.node_id for step in sets)}
    # The view may be a moment old. Removing a cordon that is gone does no harm; leaving one that exists would.
    lifts = [AlterOwnConfigs(node, {}, (CORDONED,)) for node in view.live_brokers if node in known - set(wanted)]
    return RecordedSettings(
        sets=tuple(sets),
        lifts=tuple(lifts),
        before=replace(record, cordoned=tuple(sorted(known))),
        after=replace(record, cordoned=tuple(sorted(known - {step.node_id for step in lifts}))),
    )
