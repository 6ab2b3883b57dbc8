"""What a command on manifests answers: typed, for the command line to print."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal

from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Reached, Refused, Underway
from ottla_operator.model.document import Document

Action = Literal[
    "created", "configured", "unchanged", "deleted", "retained", "missing", "refused", "waiting", "planned"
]


class ExitCode(IntEnum):
    """The exit codes of the command line that manifests can lead to."""

    OK = 0
    ERROR = 1
    NOT_FOUND = 3
    DENIED = 4
    TIMEOUT = 5
    UNHEALTHY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one object."""

    kind: str
    name: str
    action: Action
    reason: str
    """CamelCase, as in the object's Ready condition."""
    message: str
    """For people: what happened, or what is wrong and what to do next."""
    exit_code: ExitCode = ExitCode.OK
    steps: tuple[str, ...] = ()
    """What was done, or with ``dry_run`` would be; empty when nothing was to do."""
    manifest: Document | None = None
    """The object as it is stored now, with its status; None when it is not stored."""

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name} {self.action}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One process of the local cluster."""

    node_id: int
    name: str
    roles: tuple[str, ...]
    """``broker``, ``controller`` or ``active controller``."""
    state: str
    """That of the process, as `NodeState` has it: ``ready``, ``starting``, ``unready`` or ``stopped``."""
    pid: int | None
    message: str
    leads: int | None
    """How many partitions; None where it is no broker, or no broker answers."""
    client_address: str
    """``host:port`` that Kafka clients dial; of a controller only, that other controllers dial."""
    http_address: str
    """``http://host:port`` of health, metrics and console."""
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The local cluster."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    nodes: tuple[NodeStatus, ...]
    command_config: Path | None = None
    """What lets the cluster's administrator in, a client's properties; None where nobody is asked."""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.OK if all(node.state == "ready" for node in self.nodes) else ExitCode.UNHEALTHY


def outcome_of(document: Document, result: ReconcileResult, *, is_new: bool, is_changed: bool) -> Outcome:
    """Return what a pass over the stored ``document`` amounts to."""
    readiness = result.readiness
    action: Action
    if isinstance(readiness, Reached | Underway):
        action = "created" if is_new else "configured" if is_changed else "unchanged"
        code = ExitCode.OK
    elif isinstance(readiness, Refused):
        action = "refused"
        code = ExitCode.DENIED if readiness.reason.endswith("AuthorizationFailed") else ExitCode.ERROR
    else:
        action, code = "waiting", ExitCode.TIMEOUT
    return Outcome(
        kind=document["kind"],
        name=document["metadata"]["name"],
        action=action,
        reason=readiness.reason,
        message=readiness.message,
        exit_code=code,
        steps=tuple(str(step) for step in result.done),
        manifest=document,
    )


def planned_outcome(document: Document, result: ReconcileResult) -> Outcome:
    """Return what a dry run found: nothing was changed, and what would be."""
    if not result.planned:
        return outcome_of(document, result, is_new=False, is_changed=False)
    steps = tuple(str(step) for step in result.planned)
    return Outcome(
        kind=document["kind"],
        name=document["metadata"]["name"],
        action="planned",
        reason="DryRun",
        message="would " + "; ".join(steps),
        steps=steps,
        manifest=document,
    )
