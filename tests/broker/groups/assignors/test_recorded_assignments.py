"""Assignments of groups that change in steps, recorded from Kafka 4.3.1 (tests/interop/test_assignors.py)."""

from pathlib import Path

import pytest

from assignor_cases import Case, Result, assign
from recorded_cases import recorded_params

RECORDED = recorded_params(Path(__file__).with_name("kafka_assignments.jsonl"))


@pytest.mark.parametrize(("case", "kafka"), RECORDED)
def test_assignment_is_that_of_kafka(case: Case, kafka: Result) -> None:
    assert assign(case) == kafka
