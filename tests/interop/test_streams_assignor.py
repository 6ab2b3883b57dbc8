"""Tasks of random streams groups: assigned as by Kafka's own `StickyTaskAssignor`, task by task.

OTTLA_RECORD_ASSIGNMENTS=1 also records Kafka's results of small groups for the test that needs no JVM
(tests/broker/groups/streams).
"""

import json
import os
import random
from pathlib import Path
from typing import Final

from jvm_kafka import run_java

from recorded_cases import read_recorded, write_recorded
from task_cases import Case, ChangingStreamsGroup, Result, assign

RECORDED = Path(__file__).parents[1] / "broker" / "groups" / "streams" / "kafka_tasks.jsonl"
CASES: Final = 5_000
RECORDED_GROUPS: Final = 40
STEPS_PER_GROUP: Final = 5
"""Assignments of a group, each with the result of the one before as its current assignment."""


def assigned_by_kafka(cases: list[Case]) -> list[Result]:
    lines = run_java("AssignTasks.java", map(json.dumps, cases))
    return [json.loads(line.split(" ", 1)[1]) for line in lines]


def random_cases(source: random.Random, count: int) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < count:
        if source.random() < 0.04:
            group = ChangingStreamsGroup(source, members_max=120, subtopologies_max=15, tasks_max=60)
        else:
            group = ChangingStreamsGroup(source, members_max=12, subtopologies_max=5, tasks_max=12)
        cases += group.steps(STEPS_PER_GROUP)
    return cases


def test_random_streams_groups_are_assigned_as_by_kafka() -> None:
    cases = random_cases(random.Random(1071), CASES)

    theirs = assigned_by_kafka(cases)

    assert len(theirs) == len(cases)
    differ = [(case, mine, kafka) for case, kafka in zip(cases, theirs, strict=True) if (mine := assign(case)) != kafka]
    assert differ[:1] == []


def test_recorded_tasks_are_those_of_kafka() -> None:
    if os.environ.get("OTTLA_RECORD_ASSIGNMENTS"):
        source = random.Random(23)
        small = {"members_max": 6, "subtopologies_max": 3, "tasks_max": 5}
        groups = [ChangingStreamsGroup(source, **small) for _ in range(RECORDED_GROUPS)]
        cases = [case for group in groups for case in group.steps(STEPS_PER_GROUP)]
        write_recorded(RECORDED, zip(cases, assigned_by_kafka(cases), strict=True))
    recorded = read_recorded(RECORDED)

    assert assigned_by_kafka([case for case, _ in recorded]) == [result for _, result in recorded]
