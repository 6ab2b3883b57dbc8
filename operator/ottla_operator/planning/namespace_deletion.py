"""Deleted Topics and Users whose cluster cannot be reached: when they are released, and the Event about it. Pure.

An object that was deleted alone waits for its brokers without limit: its topic or entries must not be left behind. But
it must not block the deletion of its namespace, which may be unrelated to the Cluster.
"""

import shlex
from datetime import datetime

from ottla_operator.model.conditions import Readiness
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User

ABANDON_AFTER_S = 300.0
"""How long after its deletion an object waits in any case: a restart of brokers, or a roll of few, is over by then."""

ABANDONED = "Abandoned"
"""The reason of the event."""


def is_overdue(deleted_at: str, now: str) -> bool:
    """Tell whether an object that was deleted at ``deleted_at`` has waited long enough; both are RFC 3339."""
    return (datetime.fromisoformat(now) - datetime.fromisoformat(deleted_at)).total_seconds() >= ABANDON_AFTER_S


def describe_leftovers(member: Topic | User, readiness: Readiness, heir: ObjectKey | None) -> str:
    """Describe what ``member`` leaves on its brokers, how to remove it, and why it is left.

    Args:
        member: the released object.
        readiness: why its brokers could not be reached.
        heir: another object with the same claim, for which everything stays.
    """
    if isinstance(member, User):
        user, principal = shlex.quote(member.name), shlex.quote(member.principal)
        left = f"credentials, access control entries and quotas of {member.principal} stay"
        commands = [f"user remove {user}", f"acl remove --principal {principal}", f"quota remove --user {user}"]
    else:
        left, commands = f"topic {member.topic_name} stays", [f"topic delete {member.topic_name}"]
    cluster = member.cluster
    plugin = f"kubectl ottla -n {cluster.namespace} --cluster {cluster.name}"
    way = (
        f"to remove what stays: {'; '.join(f'{plugin} {it}' for it in commands)}"
        if heir is None
        else f"{heir} has it now"
    )
    return f"{member.metadata.key} was released with its namespace; {left} in {cluster}; {way} ({readiness.message})"
