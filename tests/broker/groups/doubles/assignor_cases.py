"""Groups to assign partitions to, as lines of JSON: random ones that change in steps, and their specifications.

A line is ``{"assignor", "type", "topics": [[id, partitions]], "members": [[id, instance id, topics, assigned]]}``.
Topics of members are indices in ``topics``, and ``assigned`` maps such an index to partitions. A result is a list of
such maps, in the order of ``members``. Cases of the assignor of share groups also have ``"assignable"``, such a map.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

from ottla.groups.assignors.range_assignor import RangeAssignor
from ottla.groups.assignors.simple_assignor import SimpleAssignor
from ottla.groups.assignors.types import Assignment, Assignor, GroupSpec, MemberSubscription, SubscriptionType
from ottla.groups.assignors.uniform_assignor import UniformAssignor
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid, format_uuid, parse_uuid

ASSIGNORS: Final[dict[str, Assignor]] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
_ALL: Final[dict[str, Assignor]] = {**ASSIGNORS, SimpleAssignor.name: SimpleAssignor()}

Case = dict[str, Any]
Result = list[dict[str, list[int]]]


def spec_of(case: Case) -> GroupSpec:
    topics = [parse_uuid(topic_id) for topic_id, _ in case["topics"]]
    assignable = case.get("assignable")
    return GroupSpec(
        members=[
            MemberSubscription(
                member_id=member_id,
                instance_id=instance_id,
                topic_ids=frozenset(topics[index] for index in subscribed),
                assigned={topics[int(index)]: frozenset(partitions) for index, partitions in assigned.items()},
            )
            for member_id, instance_id, subscribed, assigned in case["members"]
        ],
        subscription_type=SubscriptionType[case["type"]],
        partition_counts={topic_id: count for topic_id, (_, count) in zip(topics, case["topics"], strict=True)},
        assignable=None
        if assignable is None
        else {topics[int(index)]: frozenset(partitions) for index, partitions in assignable.items()},
    )


def result_of(case: Case, assignment: Assignment) -> Result:
    indices = {parse_uuid(topic_id): str(index) for index, (topic_id, _) in enumerate(case["topics"])}
    return [
        {
            indices[topic_id]: sorted(partitions)
            for topic_id, partitions in sorted(
                assignment.get(member_id, {}).items(), key=lambda item: int(indices[item[0]])
            )
        }
        for member_id, *_ in case["members"]
    ]


def assign(case: Case) -> Result:
    return result_of(case, run_to_end(_ALL[case["assignor"]].assign(spec_of(case))))


class ChangingGroup:
    """A group whose members come, go, and change their subscriptions, and whose topics grow and are deleted."""

    def __init__(self, source: random.Random, *, members_max: int, topics_max: int, partitions_max: int) -> None:
        self._source = source
        self._members_max = members_max
        self._partitions_max = partitions_max
        self._assignor = source.choice(list(ASSIGNORS))
        self._is_homogeneous = source.random() < 0.5
        self._topics = sorted(
            [format_uuid(Uuid(source.randbytes(16))), self._some_partitions()]
            for _ in range(source.randint(1, topics_max))
        )
        self._members: list[list[Any]] = []
        self._common = self._some_topics()
        for _ in range(source.randint(1, members_max)):
            self._join()

    def steps(self, count: int) -> Iterator[Case]:
        """Yield the group before each of ``count`` assignments; the result becomes its assignment."""
        for _ in range(count):
            case = self._case()
            yield case
            for member, assigned in zip(self._members, assign(case), strict=True):
                member[3] = assigned
            self._change()

    def _case(self) -> Case:
        kind = "HOMOGENEOUS" if self._is_homogeneous else "HETEROGENEOUS"
        members = [list(member) for member in self._members]
        return {"assignor": self._assignor, "type": kind, "topics": [list(each) for each in self._topics]} | {
            "members": members
        }

    def _some_partitions(self) -> int:
        return self._source.choice([1, self._source.randint(1, self._partitions_max)])

    def _some_topics(self) -> list[int]:
        topics = range(len(self._topics))
        return sorted(self._source.sample(topics, self._source.randint(1, len(topics))))

    def _join(self) -> None:
        source = self._source
        # A JVM's or librdkafka's client sends a random id; others may send any string.
        member_id = format_uuid(Uuid(source.randbytes(16))) if source.random() < 0.8 else f"é{source.random()}"
        instance_id = f"instance-{source.randrange(10**6)}" if source.random() < 0.3 else None
        subscribed = self._common if self._is_homogeneous else self._some_topics()
        self._members.insert(source.randint(0, len(self._members)), [member_id, instance_id, subscribed, {}])

    def _change(self) -> None:
        changes = [self._join_some, self._leave, self._leave, self._subscribe, self._grow, self._switch, self._return]
        changes += [self._scatter, self._change_several, lambda: None]
        self._source.choice(changes)()

    def _change_several(self) -> None:
        for _ in range(self._source.randint(1, 4)):
            self._change()

    def _join_some(self) -> None:
        for _ in range(self._source.randint(1, max(1, self._members_max // 3))):
            self._join()

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._source.randrange(len(self._members))]

    def _subscribe(self) -> None:
        self._common = self._some_topics()
        for member in self._members:
            if self._is_homogeneous:
                member[2] = self._common
            elif self._source.random() < 0.3:
                member[2] = self._some_topics()

    def _grow(self) -> None:
        self._source.choice(self._topics)[1] += self._source.randint(1, 5)

    def _switch(self) -> None:
        """Change the assignor, and perhaps the type; subscriptions that differ become equal."""
        self._assignor = self._source.choice(list(ASSIGNORS))
        self._is_homogeneous = self._source.random() < 0.5
        if self._is_homogeneous:
            for member in self._members:
                member[2] = self._common

    def _return(self) -> None:
        """Let a static member rejoin, which keeps its assignment under a new member id."""
        self._source.choice(self._members)[0] = format_uuid(Uuid(self._source.randbytes(16)))

    def _scatter(self) -> None:
        """Assign most partitions at random to some of the members, subscribed or not, as no assignor does."""
        source = self._source
        some = source.sample(self._members, source.randint(1, len(self._members)))
        for member in self._members:
            member[3] = {}
        for topic, (_, count) in enumerate(self._topics):
            for partition in range(count):
                if source.random() < 0.8:
                    source.choice(some)[3].setdefault(str(topic), []).append(partition)


class ChangingShareGroup(ChangingGroup):
    """A share group, of whose partitions some are not initialized."""

    def __init__(self, source: random.Random, *, members_max: int, topics_max: int, partitions_max: int) -> None:
        super().__init__(source, members_max=members_max, topics_max=topics_max, partitions_max=partitions_max)
        self._assignor = SimpleAssignor.name

    def _case(self) -> Case:
        source = self._source
        share = source.choice([1.0, 1.0, 0.7])
        assignable = {
            str(index): [partition for partition in range(count) if source.random() < share]
            for index, (_, count) in enumerate(self._topics)
        }
        for member in self._members:
            member[1] = None
        return super()._case() | {"assignable": assignable}

    def _switch(self) -> None:
        super()._switch()
        self._assignor = SimpleAssignor.name
