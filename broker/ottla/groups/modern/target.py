"""`TargetAssignmentBuilder`: computes the target assignment of a group and writes it, at once or in slices.

That of a small group is computed within the heartbeat that finds it out of date, as in Kafka. That of a larger one is a
job (`modern.jobs`): members get the last target until it is done, as in Kafka while ``assignment.interval.ms`` lasts.
Its records are several batches, the new assignment epoch in the last one.

Source: TargetAssignmentBuilder of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import TOPICS_PER_STEP
from ottla.groups.modern.group import ModernGroup
from ottla.groups.modern.jobs import GroupJob, in_job
from ottla.ports import Clock
from ottla.purgatory.steps import Steps, run_to_end
from ottla.quoting import quoted

log = logging.getLogger(__name__)

_RECORDS_PER_BATCH: Final = 64

AssignmentT = TypeVar("AssignmentT", bound=Sized)


@dataclass(frozen=True, slots=True)
class TargetAssignmentBuilder(Generic[AssignmentT]):
    """Builds the target assignments of one protocol. The size of an assignment counts its topics, or subtopologies.

    Attributes:
        member_record: returns the record of the assignment of a group's member.
        epoch_record: returns the record that completes the assignment of a group for an epoch, at a wall clock time.
    """

    member_record: Callable[[str, str, AssignmentT], GroupRecord]
    epoch_record: Callable[[str, int, int], GroupRecord]

    def build_in_place(
        self,
        group: ModernGroup[Any, AssignmentT],
        epoch: int,
        assignor: str,
        computation: Steps[dict[str, AssignmentT]],
        clock: Clock,
        records: list[GroupRecord],
    ) -> Mapping[str, AssignmentT]:
        """Return the target of each member; add its records.

        ``epoch`` is the group's, which the same heartbeat may have incremented.
        """
        computed = run_to_end(computation)
        for member_id, assignment in computed.items():
            if assignment != group.target.get(member_id):
                records.append(self.member_record(group.group_id, member_id, assignment))
        records.append(self.epoch_record(group.group_id, epoch, clock.wall_ms()))
        log.info("Group %s has a target assignment for epoch %d by %s", quoted(group.group_id), epoch, quoted(assignor))
        return computed

    def build_in_slices(
        self,
        group: ModernGroup[Any, AssignmentT],
        assignor: str,
        computation: Steps[dict[str, AssignmentT]],
        clock: Clock,
    ) -> GroupJob:
        """Compute the target of the members that the group has now, for its epoch, and write it.

        Members that come and go meanwhile have a newer epoch; they get their target by the next assignment.
        """
        epoch, started_ms = group.epoch, clock.monotonic_ms()
        yield None
        computed = yield from in_job(computation)
        yield from self._batches(group, computed)
        yield [self.epoch_record(group.group_id, epoch, clock.wall_ms())]
        log.info(
            "Group %s has a target assignment for epoch %d by %s, of %d members in %d ms",
            quoted(group.group_id),
            epoch,
            quoted(assignor),
            len(computed),
            clock.monotonic_ms() - started_ms,
        )

    def _batches(
        self, group: ModernGroup[Any, AssignmentT], computed: Mapping[str, AssignmentT]
    ) -> Iterator[list[GroupRecord]]:
        """Yield the records of members that are still there and get another target than they have."""
        records: list[GroupRecord] = []
        topics = 0
        for member_id, assignment in computed.items():
            if member_id in group.members and assignment != group.target.get(member_id):
                records.append(self.member_record(group.group_id, member_id, assignment))
            topics += 1 + len(assignment)
            if len(records) >= _RECORDS_PER_BATCH or topics >= TOPICS_PER_STEP:
                yield records
                records, topics = [], 0
        yield records
