"""Nodes as their host sees them: the first half of what the planner looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class NodeState(Enum):
    """Where a node is in its life, as its host sees it."""

    STOPPED = "stopped"
    """Nothing runs and nothing will unless it is started."""
    STARTING = "starting"
    """It is on its way up and has served nobody since it was started."""
    READY = "ready"
    UNREADY = "unready"
    """It has served, or may have, and does not say now that it does; others may still need what it does."""
    FAILED = "failed"
    """It was started and does not come up; the host keeps trying, or a new revision may help."""
    STOPPING = "stopping"
    """It was stopped for good and has not ended yet."""


MACHINE_LOST = "MachineLost"
"""The reason of a node whose machine does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node as its host sees it."""

    name: str
    state: NodeState
    uid: str = ""
    """Of this run of the node, which none that follows has; empty where nothing runs, or nobody else restarts it."""
    revision: str | None = None
    """Of the configuration that it runs with; None when nothing runs."""
    reason: str = ""
    """CamelCase, for a node that is neither READY nor STOPPED."""
    message: str = ""
    has_crashed: bool = False
    """Of one that is FAILED: it has run and ended by itself, and may look well between two such ends."""
    parts: str = ""
    """What it runs with, part by part (`model.revision`); empty where that is not known."""
    certificate: str | None = None
    """SHA-256 in hexadecimal of the certificate that it shows to other nodes; None where there is no TLS or answer."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By listener for clients outside: whom the certificate is for that it shows there, as far as that was seen."""
    machine: str = ""
    """The address of where it runs, as far as the host knows one."""
    unverified: str = ""
    """Why clients outside do not take it, in words, until it has read a certificate that is there already."""
