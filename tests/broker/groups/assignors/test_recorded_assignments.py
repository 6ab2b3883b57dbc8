"""Assignments of groups that change in steps, recorded from Kafka 4.3.1 (tests/interop/test_assignors.py)."""

import json
from pathlib import Path

import pytest

from assignor_cases import Case, Result, assign

RECORDED = [
    pytest.param(*json.loads(line), id=str(number))
    for number, line in enumerate(
        (Path(__file__).parent / "kafka_assignments.jsonl").read_text(encoding="utf-8").splitlines(), 1
    )
]


@pytest.mark.parametrize(("case", "kafka"), RECORDED)
def test_assignment_is_that_of_kafka(case: Case, kafka: Result) -> None:
    assert assign(case) == kafka
