"""Voters of the metadata quorum: controllers of the spec join, one at a time, and others leave. Pure.

A change starts only while every voter that stays is caught up. Controllers join before others leave, except that a
voter whose directory is lost is removed before the node that has its id now joins.
"""

from collections.abc import Mapping

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.operation import Operation, OperationKind
from ottla_operator.planning.cluster.restart_gates import quorum_loss_reason
from ottla_operator.planning.steps.cluster import AddVoter, RemoveVoter
from ottla_operator.ports.cluster_view import ClusterView, QuorumMember

_CHANGING = "QuorumChanging"


def next_change(desired: DesiredCluster, view: ClusterView) -> AddVoter | RemoveVoter | Waiting | None:
    """Return the next change of the quorum, or why it waits; None if it matches the spec."""
    if not view.voters or desired.cluster.initial_controllers:
        return None
    wanted = {node.node_id: node for node in desired.controllers}
    voting = {voter.node_id: voter for voter in view.voters}
    lost = _first_lost(wanted, view)
    surplus = [voter for number, voter in sorted(voting.items()) if number not in wanted]
    missing = [node for number, node in sorted(wanted.items()) if number not in voting]
    if lost is not None:
        return lost
    if missing:
        caught_up = _directories(view)
        ready = next((node for node in missing if len(caught_up.get(node.node_id, ())) == 1), None)
        if ready is None:
            names = ", ".join(node.name for node in missing)
            return Waiting(_CHANGING, f"waiting for controllers to follow the metadata log: {names}")
        behind = [voter.node_id for voter in view.voters if not voter.is_caught_up]
        if behind:
            return Waiting(_CHANGING, f"node {ready.name} has to become a voter; waiting for voters {behind}")
        return AddVoter(ready, *caught_up[ready.node_id])
    if surplus:
        # The leader is removed last: its removal causes an election.
        return _removal(min(surplus, key=lambda voter: voter.node_id == view.controller_id), view)
    return None


def quorum_operation(desired: DesiredCluster, view: ClusterView | None) -> Operation | None:
    """Return the change of the quorum in progress; None without one."""
    change = None if view is None else next_change(desired, view)
    if view is None or change is None:
        return None
    wanted = {node.node_id for node in desired.controllers}
    voting = {voter.node_id for voter in view.voters}
    message = change.message if isinstance(change, Waiting) else str(change)
    even = "" if len(voting) % 2 else f"; {len(voting)} voters for now, which survive no more failures than one less"
    return Operation(
        kind=OperationKind.VOTER_CHANGE,
        target=",".join(map(str, sorted(wanted))),
        step="Waiting" if isinstance(change, Waiting) else "Removing" if isinstance(change, RemoveVoter) else "Adding",
        message=f"{message}{even}",
        left=max(len(wanted ^ voting), 1),
        generation=desired.cluster.metadata.generation,
        takes_step=not isinstance(change, Waiting),
    )


def _removal(voter: QuorumMember, view: ClusterView) -> RemoveVoter | Waiting:
    reason = quorum_loss_reason(voter.node_id, view)
    if reason is not None:
        return Waiting(_CHANGING, f"voter {voter.node_id} has to leave the quorum; {reason}")
    return RemoveVoter(voter.node_id, voter.directory_id)


def _first_lost(wanted: Mapping[int, DesiredNode], view: ClusterView) -> RemoveVoter | Waiting | None:
    """Return the removal of the first voter whose node has another directory now, or why it waits.

    The quorum's leader lists stopped replicas for minutes, so a voter and an observer of the same id may both be
    outdated: the one that is caught up is the one that runs.
    """
    for voter in sorted(view.voters, key=lambda it: it.node_id):
        others = [it for it in view.observers if it.node_id == voter.node_id and voter.node_id in wanted]
        is_followed = any(it.is_caught_up for it in others)
        if is_followed and not voter.is_caught_up:
            return _removal(voter, view)
        if others and (is_followed or not voter.is_caught_up):
            name = wanted[voter.node_id].name
            return Waiting(_CHANGING, f"node {name} has another directory than voter {voter.node_id}, or had one")
    return None


def _directories(view: ClusterView) -> dict[int, list[str]]:
    """Return the directories of caught-up observers, by node id; one of several may have just been replaced."""
    found: dict[int, list[str]] = {}
    for observer in view.observers:
        if observer.is_caught_up:
            found.setdefault(observer.node_id, []).append(observer.directory_id)
    return found
