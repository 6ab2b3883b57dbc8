"""Configured topologies of random streams groups: the same as by Kafka's own classes, messages and orders included.

OTTLA_RECORD_TOPOLOGIES=1 also records results for the test that needs no JVM (tests/broker/groups/streams).
"""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Final

from jvm_kafka import run_java

from recorded_cases import read_recorded, write_recorded
from topology_cases import Case, RandomTopology, Result, configure

RECORDED = Path(__file__).parents[1] / "broker" / "groups" / "streams" / "kafka_topologies.jsonl"
CASES: Final = 5_000
RECORDED_CASES: Final = 150


def configured_by_kafka(cases: list[Case]) -> list[Result]:
    return [json.loads(line) for line in run_java("ConfigureTopologies.java", map(json.dumps, cases))]


def random_cases(source: random.Random, count: int, sizes: list[int]) -> list[Case]:
    return [RandomTopology(source, subtopologies_max=source.choice(sizes)).case() for _ in range(count)]


def test_random_topologies_are_configured_as_by_kafka() -> None:
    cases = random_cases(random.Random(1071), CASES, [2, 4, 8] * 10 + [60])

    theirs = configured_by_kafka(cases)

    differ = [
        (case, mine, kafka) for case, kafka in zip(cases, theirs, strict=True) if (mine := configure(case)) != kafka
    ]
    assert differ[:1] == []
    kinds = Counter(kind_of(result) for result in theirs)
    assert min(kinds[kind] for kind in ("ready", "1", "2", "3", "STREAMS_INVALID_TOPOLOGY")) > CASES // 50, kinds


def kind_of(result: Result) -> str:
    if "error" in result:
        return str(result["error"][0])
    return str(result["problem"][0]) if "problem" in result else "ready"


def test_recorded_results_are_those_of_kafka() -> None:
    if os.environ.get("OTTLA_RECORD_TOPOLOGIES"):
        cases = random_cases(random.Random(23), RECORDED_CASES, [2, 3, 6])
        write_recorded(RECORDED, zip(cases, configured_by_kafka(cases), strict=True))
    recorded = read_recorded(RECORDED)

    assert configured_by_kafka([case for case, _ in recorded]) == [result for _, result in recorded]
