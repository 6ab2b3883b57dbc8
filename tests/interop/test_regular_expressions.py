"""Regular expressions of groups: the recorded results of RE2J are those of the JVM Kafka's jar.

OTTLA_RECORD_REGULAR_EXPRESSIONS=1 records them (tests/broker/groups/regex).
"""

import json
import os
from pathlib import Path
from typing import Final

from jvm_kafka import run_java

from recorded_cases import read_recorded, write_recorded

UNIT_TESTS: Final = Path(__file__).parents[1] / "broker" / "groups" / "regex"
RECORDED: Final = UNIT_TESTS / "re2j_results.jsonl"
NAMES: Final = json.loads((UNIT_TESTS / "topic_names.json").read_text(encoding="utf-8"))


def test_recorded_results_are_those_of_re2j() -> None:
    recorded = read_recorded(RECORDED)

    requests = [json.dumps({"pattern": pattern, "names": NAMES}) for pattern, _ in recorded]
    results = [json.loads(line) for line in run_java("MatchPatterns.java", requests)]
    current = [(pattern, result) for (pattern, _), result in zip(recorded, results, strict=True)]
    if os.environ.get("OTTLA_RECORD_REGULAR_EXPRESSIONS"):
        write_recorded(RECORDED, current)
    else:
        assert current == recorded
