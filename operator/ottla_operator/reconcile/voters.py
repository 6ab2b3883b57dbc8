"""Who votes: controllers that the spec asks for join the quorum, one at a time, and others leave it. Pure.

A change is made only while every voter that stays is caught up. Controllers join before others leave, except that a
voter whose directory is lost makes way for the node that has its id now.
"""

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.reconcile.rolling import quorum_without
from ottla_operator.reconcile.steps import AddVoter, RemoveVoter
from ottla_operator.reconcile.view import ClusterView, QuorumMember

_CHANGING = "QuorumChanging"


def next_change(desired: DesiredCluster, view: ClusterView) -> AddVoter | RemoveVoter | Waiting | None:
    """Return the next change of the quorum, or what it waits for; None when it is as the spec asks."""
    if not view.voters or desired.cluster.initial_controllers:
        return None
    wanted = {node.node_id: node for node in desired.controllers}
    voting = {voter.node_id: voter for voter in view.voters}
    followers = {observer.node_id: observer for observer in view.observers}
    lost = [voter for number, voter in voting.items() if number in wanted and _is_replaced(voter, followers)]
    surplus = [voter for number, voter in sorted(voting.items()) if number not in wanted]
    missing = [node for number, node in sorted(wanted.items()) if number not in voting]
    if lost:
        return _removal(lost[0], view)
    if missing:
        caught_up = {observer.node_id for observer in view.observers if observer.is_caught_up}
        ready = next((node for node in missing if node.node_id in caught_up), None)
        if ready is None:
            names = ", ".join(node.name for node in missing)
            return Waiting(_CHANGING, f"waiting for controllers to follow the metadata log: {names}")
        behind = [voter.node_id for voter in view.voters if not voter.is_caught_up]
        if behind:
            return Waiting(_CHANGING, f"node {ready.name} has to become a voter; waiting for voters {behind}")
        return AddVoter(ready, followers[ready.node_id].directory_id)
    if surplus:
        # The one that leads goes last: its going is an election.
        return _removal(min(surplus, key=lambda voter: voter.node_id == view.controller_id), view)
    return None


def _removal(voter: QuorumMember, view: ClusterView) -> RemoveVoter | Waiting:
    reason = quorum_without(voter.node_id, view)
    if reason is not None:
        return Waiting(_CHANGING, f"voter {voter.node_id} has to leave the quorum; {reason}")
    return RemoveVoter(voter.node_id, voter.directory_id)


def _is_replaced(voter: QuorumMember, followers: dict[int, QuorumMember]) -> bool:
    follower = followers.get(voter.node_id)
    return follower is not None and follower.directory_id != voter.directory_id
