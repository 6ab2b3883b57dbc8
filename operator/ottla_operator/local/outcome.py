"""Typed results of commands on manifests, for the command line to print."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal

from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.model.conditions import Reached, Rejected, Underway
from ottla_operator.model.document import Document

Action = Literal[
    "created", "configured", "unchanged", "deleted", "retained", "missing", "refused", "waiting", "planned"
]


class ExitCode(IntEnum):
    """Exit codes of commands on manifests."""

    OK = 0
    ERROR = 1
    NOT_FOUND = 3
    DENIED = 4
    TIMEOUT = 5
    UNHEALTHY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a command for one object."""

    kind: str
    name: str
    action: Action
    reason: str
    """CamelCase, as in the object's Ready condition."""
    message: str
    """For people: the result, or the problem and the next step."""
    exit_code: ExitCode = ExitCode.OK
    steps: tuple[str, ...] = ()
    """Executed steps, or with ``dry_run`` planned ones; empty if there are none."""
    manifest: Document | None = None
    """The object as stored, with its status; None if it is not stored."""

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
    """Of the process, as in `NodeState`: ``ready``, ``starting``, ``unready`` or ``stopped``."""
    pid: int | None
    message: str
    leads: int | None
    """Number of partitions that it leads; None for a controller, or if no broker responds."""
    client_address: str
    """``host:port`` of the listener for clients; of a controller only, of the listener for other controllers."""
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
    """Client properties of the cluster's administrator; None without authentication."""

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.OK if all(node.state == "ready" for node in self.nodes) else ExitCode.UNHEALTHY


def outcome_of(document: Document, result: ReconcileResult, *, is_new: bool, is_changed: bool) -> Outcome:
    """Return the outcome of reconciling the stored ``document``."""
    readiness = result.readiness
    action: Action
    if isinstance(readiness, Reached | Underway):
        action = "created" if is_new else "configured" if is_changed else "unchanged"
        code = ExitCode.OK
    elif isinstance(readiness, Rejected):
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
    """Return the outcome of a dry run: the steps that an apply would execute."""
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
