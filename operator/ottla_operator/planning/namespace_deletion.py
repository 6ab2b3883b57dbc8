"""When a deleted Topic or User is let go although its cluster could not be asked, and what to say of it. Pure.

One that was deleted on its own waits for its brokers, however long that takes: what it has there is not forgotten. But
it must not keep a namespace that is going: whoever deleted that may have nothing to do with the Cluster.
"""

import shlex
from datetime import datetime

from ottla_operator.model.conditions import Readiness
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User

GIVEN_UP_AFTER_S = 300.0
"""So long after its deletion nothing is given up: a restart of brokers, or a roll of few, is over by then."""

ABANDONED = "Abandoned"
"""The reason of the event."""


def is_overdue(deleted_at: str, now: str) -> bool:
    """Tell whether an object that was deleted at ``deleted_at`` has waited long enough; both are RFC 3339."""
    return (datetime.fromisoformat(now) - datetime.fromisoformat(deleted_at)).total_seconds() >= GIVEN_UP_AFTER_S


def what_stays(member: Topic | User, readiness: Readiness, heir: ObjectKey | None) -> str:
    """Return in words what ``member`` leaves on its brokers, how to remove it, and why it is left.

    Args:
        member: the object that is let go.
        readiness: why its brokers could not be asked.
        heir: another object that claims the same, and for which it stays.
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
    return f"{member.metadata.key} was let go with its namespace; {left} in {cluster}; {way} ({readiness.message})"
