"""Input of the assignors of streams groups.

Source: GroupSpec, AssignmentMemberSpec, TopologyDescriber of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.groups.streams.tasks import Tasks
from ottla.groups.streams.topics.configured import ConfiguredTopology


@dataclass(frozen=True, slots=True)
class AssignmentMember:
    """One member as the assignor sees it. `sticky` considers its process and its active and standby tasks.

    Attributes:
        instance_id: of a static member, which Kafka 4.3 does not have.
        rack_id: where the member runs.
        active: the member's active tasks in the current target assignment; its tasks may not exist any more.
        standby: its standby tasks.
        warmup: its warm-up tasks.
        process_id: the same for members, threads of a client, that share a process.
        client_tags: of the client's configuration.
    """

    instance_id: str | None
    rack_id: str | None
    active: Tasks
    standby: Tasks
    warmup: Tasks
    process_id: str
    client_tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group; nothing in it may change until the assignor has returned.

    Attributes:
        members: by id, in any order; Kafka orders them by hash, and this order counts among equal buckets only.
        standby_replicas: standby tasks for each task with state, 0 or more.
    """

    members: Mapping[str, AssignmentMember]
    standby_replicas: int


@dataclass(frozen=True, slots=True)
class SubtopologyTasks:
    """The tasks of a subtopology: one for each partition below ``task_count``.

    They have state if it has changelog topics.
    """

    subtopology_id: str
    task_count: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class TaskTopology:
    """The subtopologies, sorted by id as Java sorts strings."""

    subtopologies: tuple[SubtopologyTasks, ...]


def task_topology(configured: ConfiguredTopology) -> TaskTopology:
    """Return the tasks of a configured topology; none while its topics have a problem."""
    return TaskTopology(
        tuple(
            SubtopologyTasks(subtopology_id, each.task_count, bool(each.state_changelog_topics))
            for subtopology_id, each in (configured.subtopologies or {}).items()
        )
    )
