"""Mutations of streams groups (KIP-1071), in the form of `catalog`."""

from typing import Any

from catalog import MUTATIONS, mutation
from hunting import SetAttribute, measure
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.streams import heartbeat, target
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.groups import StreamsGroups
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.reconciliation import Reconciliation
from ottla.groups.streams.settings import StreamsGroupSettings
from ottla.groups.streams.tasks import NO_TASKS
from ottla.purgatory.steps import Steps

IN_STREAMS_GROUPS: dict[str, int] = {"seeds_from": 8, "seeds_step": 32, "seeds_max": 200}
"""The seeds whose runs have a streams group."""


@mutation("an active task is assigned while another process has it", known_seed=40, **IN_STREAMS_GROUPS)
def _assign_active_tasks(set_attribute: SetAttribute) -> None:
    set_attribute(StreamsGroup, "active_anywhere", lambda self, subtopology_id, partitions: frozenset())


@mutation("a task is assigned to a process that has a copy of it", known_seed=40, **IN_STREAMS_GROUPS)
def _ignore_copies(set_attribute: SetAttribute) -> None:
    for name in ("with_copy", "with_task"):
        set_attribute(StreamsGroup, name, lambda self, process_id, subtopology_id, partitions: frozenset())


@mutation("a task counts as revoked before the member reports it", known_seed=40, **IN_STREAMS_GROUPS)
def _revoke_at_once(set_attribute: SetAttribute) -> None:
    set_attribute(Reconciliation, "_still_owns", lambda self, revoked: False)


@mutation("the target assignment leaves out one member", **IN_STREAMS_GROUPS)
def _leave_out_one_member(set_attribute: SetAttribute) -> None:
    compute = target._compute

    def without_last(*arguments: Any) -> Steps[dict[str, Any]]:
        computed = yield from compute(*arguments)
        return {**computed, max(computed): NO_TASKS}

    set_attribute(target, "_compute", without_last)


@mutation("the current assignment of a member is not written", **IN_STREAMS_GROUPS)
def _write_no_current_assignment(set_attribute: SetAttribute) -> None:
    reconcile = heartbeat._reconcile

    def reconcile_only(*arguments: Any) -> StreamsMember:
        return reconcile(*arguments[:-1], [])

    set_attribute(heartbeat, "_reconcile", reconcile_only)


@mutation("a member that does not revoke is not removed", known_seed=104, **IN_STREAMS_GROUPS)
def _wait_for_ever(set_attribute: SetAttribute) -> None:
    set_attribute(ModernGroups, "await_revocation", lambda self, group_id, member: None)


@mutation("a new coordinator of a streams group starts no sessions", known_seed=40, **IN_STREAMS_GROUPS)
def _start_no_sessions(set_attribute: SetAttribute) -> None:
    set_attribute(StreamsGroups, "start", lambda self: None)


@mutation("standby tasks are not assigned", **IN_STREAMS_GROUPS)
def _assign_no_standbys(set_attribute: SetAttribute) -> None:
    set_attribute(StreamsGroupSettings, "standby_replicas", lambda self, group_id: 0)


@mutation("sessions of streams members end early", known_seed=40, **IN_STREAMS_GROUPS)
def _end_sessions_early(set_attribute: SetAttribute) -> None:
    set_attribute(StreamsGroupSettings, "session_timeout_ms", lambda self, group_id: 2_000)


if __name__ == "__main__":
    measure([each._replace(known_seed=None) for each in MUTATIONS if each.apply.__module__ == "__main__"])
