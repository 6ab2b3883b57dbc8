"""Assignments of random groups: the same as those of Kafka's own assignors, partition by partition.

OTTLA_RECORD_ASSIGNMENTS=1 also records Kafka's results of small groups for the test that needs no JVM
(tests/broker/groups/assignors).
"""

import json
import os
import random
from pathlib import Path
from typing import Final

from jvm_kafka import run_java

from assignor_cases import Case, ChangingGroup, ChangingShareGroup, Result, assign
from recorded_cases import read_recorded, write_recorded

RECORDED = Path(__file__).parents[1] / "broker" / "groups" / "assignors" / "kafka_assignments.jsonl"
CASES: Final = 5_000
SHARE_CASES: Final = 2_000
RECORDED_GROUPS: Final = 25
STEPS_PER_GROUP: Final = 6
"""Assignments of a group, each with the result of the one before as its current assignment."""


def assigned_by_kafka(cases: list[Case]) -> list[Result]:
    """Return the results of Kafka's assignors, computed in one JVM."""
    lines = run_java("AssignGroups.java", map(json.dumps, cases))
    return [json.loads(line.split(" ", 1)[1]) for line in lines]


def random_cases(source: random.Random) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < CASES:
        if source.random() < 0.04:
            group = ChangingGroup(source, members_max=150, topics_max=40, partitions_max=200)
        else:
            group = ChangingGroup(source, members_max=12, topics_max=7, partitions_max=30)
        cases += group.steps(STEPS_PER_GROUP)
    return cases


def test_random_groups_are_assigned_as_by_kafka() -> None:
    cases = random_cases(random.Random(848))

    theirs = assigned_by_kafka(cases)

    assert len(theirs) == len(cases)
    differ = [(case, mine, kafka) for case, kafka in zip(cases, theirs, strict=True) if (mine := assign(case)) != kafka]
    assert differ == []


def test_random_share_groups_are_assigned_as_by_kafka() -> None:
    source = random.Random(932)
    cases: list[Case] = []
    while len(cases) < SHARE_CASES:
        large = source.random() < 0.1
        group = ChangingShareGroup(
            source,
            members_max=60 if large else 12,
            topics_max=12 if large else 5,
            partitions_max=30 if large else 8,
        )
        cases += group.steps(STEPS_PER_GROUP)

    theirs = assigned_by_kafka(cases)

    # Kafka's assignor fails for some groups, whose heartbeats end with UNKNOWN_SERVER_ERROR until a member changes.
    computed = [
        # Kafka keeps topics of which a member has no partition any more.
        (case, assign(case), [{topic: each for topic, each in member.items() if each} for member in kafka])
        for case, kafka in zip(cases, theirs, strict=True)
        if kafka is not None
    ]
    assert len(computed) > len(cases) * 3 // 4
    assert [each for each in computed if each[1] != each[2]] == []


def test_recorded_results_are_those_of_kafka() -> None:
    if os.environ.get("OTTLA_RECORD_ASSIGNMENTS"):
        source = random.Random(23)
        groups = [ChangingGroup(source, members_max=5, topics_max=4, partitions_max=12) for _ in range(RECORDED_GROUPS)]
        cases = [case for group in groups for case in group.steps(STEPS_PER_GROUP)]
        write_recorded(RECORDED, zip(cases, assigned_by_kafka(cases), strict=True))
    recorded = read_recorded(RECORDED)

    assert assigned_by_kafka([case for case, _ in recorded]) == [result for _, result in recorded]
